"""What a plan looks like: text, Mermaid, JSON."""
