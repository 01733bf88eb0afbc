from redis_server import own_redis, redis_binary, redis_server

__all__ = ["own_redis", "redis_binary", "redis_server"]
