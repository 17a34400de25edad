"""The engines that come with Dyno. `dyno.registry.find_own` describes how their modules declare them.

An engine's library is imported inside its opener, never when the engine's module is imported.
"""
