"""Crashes engines, and cuts their power: an engine's changes to its files are recorded, and replayed through a model
of what a file system may lose.

    record.py    format of a record            recorder.py  records a command; strace_recorder.py without native code
    tree.py      names and files of a record   changes.py   a record as changes that a cut keeps or loses one by one
    images.py    contents of files in a state  model.py     draws states after a cut
    store.py     opens and judges a store      explanation.py describes a state in words
    child.py     processes that may die        rows.py      kills, cuts and verdict of each engine and tier
"""
