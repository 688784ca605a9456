"""A live job for hours, under load and faults: what grows?"""
