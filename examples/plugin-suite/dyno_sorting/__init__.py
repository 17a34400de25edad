"""A suite for Dyno with its own port: how fast is a list of whole numbers sorted?"""
