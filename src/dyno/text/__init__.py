"""Text from outside: sanitizing, passwords, addresses, and reading files with a size limit."""
