from hypothesis import settings

# A machine that does other things too is no fault of a test.
settings.register_profile("widgets", deadline=None)
settings.load_profile("widgets")
