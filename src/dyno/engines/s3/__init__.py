"""Object stores and websites: engines by S3's API, by HTTP and in a directory, and their servers."""

ENGINES = ("minio", "versitygw")
"""The engines that the module `engines` declares."""
