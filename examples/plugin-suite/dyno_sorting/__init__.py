"""A suite for Dyno with a port of its own: how fast is a list of whole numbers sorted?"""
