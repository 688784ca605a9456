"""Forms of whole queries and statements of other engines."""
