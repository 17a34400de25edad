"""Engines for object stores and websites: through S3's API, through HTTP and in a directory; and their servers."""

ENGINES = ("minio", "s3", "versitygw")
"""The engines that the module `engines` declares."""
