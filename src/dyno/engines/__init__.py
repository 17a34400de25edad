"""The engines that come with Dyno, a file each; `ENGINE` in each is its declaration.

An engine's library is imported inside its opener, never at the top of its file.
"""
