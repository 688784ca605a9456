"""The seed with which each planted bug was last seen to be caught; it is tried first.

Any change of production code or of the simulation makes other runs of all seeds, so one of these
may stop catching its bug: then the search goes on, and what it finds belongs here.
"""

from __future__ import annotations

KILLERS = {
    "merge_emits_one_cti_too_few": 0,
    "low_water_mark_off_by_one": 0,
    "reader_skips_the_seam": 0,
    "old_marks_collect_a_new_instance": 18,
    "checkpoint_announced_before_its_outputs_are_durable": 0,
    "stale_epochs_are_believed": 0,
    "restart_from_a_checkpoint_too_new": 0,
    "lost_items_are_ignored": 5,
    "deletes_before_notices_are_durable": 0,
    "repeated_writes_are_taken_as_new": 0,
    "the_cut_off_go_on": 0,
    "read_ahead_counts_as_consumed": 6,
    "a_failed_flush_counts_as_durable": 0,
    "a_full_tail_hides_a_failed_flush": 15,
    "volatile_marks_are_kept": 17,
    "the_fenced_are_in_the_log": 56,
    "a_takeover_counts_epochs_on": 6,
    "a_replaced_writer_takes_the_mark_back": 118,
    "wall_time_measures_silence": 26,
    "replay_puts_out_what_it_repeats": 1,
    "no_state_reaches_back": 64,
    "marks_forget_what_replay_reads": 5,
    "memory_is_not_held_for_replay": 1,
    "an_item_is_skipped_at_a_new_site": 17,
    "an_item_is_repeated_at_a_new_site": 17,
    "joins_do_not_hold_the_marks": 0,
    "a_twin_counts_as_level_at_once": 6,
    "a_newcomer_has_no_parts": 6,
    "a_checkpoint_takes_all_its_parts_along": 6,
    "a_replaced_manager_goes_on": 6,
    "a_successor_applies_the_marks_less_often": 0,
    "a_second_copy_is_taken": 6,
    "a_gap_is_passed_over": 12,
    "batches_are_taken_as_they_come": 6,
}
