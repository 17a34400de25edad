"""Crash tests of engines: Dyno kills them, or records their changes to files and replays these through a model of
what a file system may lose in a power cut.

    record.py    format of a record            recorder.py  records a command, by native code
    tree.py      names and files of a record   changes.py   a record as changes that a cut keeps or loses one by one
    images.py    contents of files in a state  model.py     draws states after a cut
    store.py     opens and judges a store      explanation.py describes a state in words
    child.py     processes that may die        rows.py      kills, cuts and verdict of each engine and tier
"""
