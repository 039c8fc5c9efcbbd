"""A real Valkey in place of the Redis that nodes share answers by: all of
tests/integration/test_answer_cache_redis.py, but for TLS, which this build has not."""
import unittest

import builds
import redis_server

redis_server.FOUND = str(builds.valkey())  # before its tests are looked at

from test_answer_cache_redis import *  # noqa: E402, F403

Access.test_tls_and_a_password = unittest.skip("it speaks no TLS")(  # noqa: F405
    Access.test_tls_and_a_password)  # noqa: F405
