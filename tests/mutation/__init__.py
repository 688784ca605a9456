"""Small mistakes planted by machine in the pure modules: which of them do the tests catch?"""
