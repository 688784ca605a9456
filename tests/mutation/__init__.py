"""Small bugs planted by machine in the pure modules: which of them do the tests detect?"""
