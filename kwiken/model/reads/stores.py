"""Operations of common stores and of clouds' interfaces: which read, and which change something.

Sources: the command and API references of each store, as of 2026. What takes a task or a message, or draws
from a sequence, changes something. A write in the table only has to be told apart from its like: operations
that are in no row are judged by their words.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class StoreOperations(NamedTuple):
    """Operations of one store, by their names as clients' spans state them."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


def _row(reads: str, writes: str) -> StoreOperations:
    return StoreOperations(tuple(reads.split()), tuple(writes.split()))


# fmt: off
STORES: Final[dict[str, StoreOperations]] = {
    "Redis and Valkey": _row(
        "GET MGET GETRANGE SUBSTR STRLEN LCS EXISTS TTL PTTL EXPIRETIME PEXPIRETIME TYPE KEYS SCAN "
        "RANDOMKEY GETBIT BITCOUNT BITPOS BITFIELD_RO HGET HMGET HGETALL HKEYS HVALS HLEN HEXISTS HSCAN "
        "HSTRLEN HRANDFIELD HTTL LLEN LRANGE LINDEX LPOS SCARD SMEMBERS SISMEMBER SMISMEMBER SRANDMEMBER "
        "SSCAN SINTER SINTERCARD SUNION SDIFF ZCARD ZCOUNT ZLEXCOUNT ZRANGE ZREVRANGE ZRANGEBYSCORE "
        "ZREVRANGEBYSCORE ZRANGEBYLEX ZREVRANGEBYLEX ZRANK ZREVRANK ZSCORE ZMSCORE ZSCAN ZINTER "
        "ZINTERCARD ZUNION ZDIFF ZRANDMEMBER GEOPOS GEODIST GEOHASH GEOSEARCH GEORADIUS_RO "
        "GEORADIUSBYMEMBER_RO XLEN XRANGE XREVRANGE XREAD XINFO XPENDING PFCOUNT SORT_RO EVAL_RO "
        "EVALSHA_RO FCALL_RO DBSIZE ECHO TIME DUMP JSON.GET JSON.MGET FT.SEARCH FT.AGGREGATE TS.GET "
        "TS.MGET TS.RANGE TS.MRANGE BF.EXISTS BF.MEXISTS CF.EXISTS",
        "SET SETEX SETNX MSET MSETNX APPEND INCR INCRBY DECR GETSET GETDEL GETEX SETBIT BITOP BITFIELD "
        "DEL UNLINK EXPIRE PERSIST RENAME COPY MOVE RESTORE SORT TOUCH HSET HSETNX HMSET HDEL HGETDEL "
        "HGETEX HINCRBY HEXPIRE LPUSH RPUSH LPOP RPOP LMPOP BLPOP BRPOP BLMOVE BLMPOP RPOPLPUSH LMOVE "
        "LREM LSET LTRIM SADD SREM SPOP SMOVE SINTERSTORE SUNIONSTORE ZADD ZREM ZINCRBY ZPOPMIN ZPOPMAX "
        "BZPOPMIN ZMPOP ZRANGESTORE ZREMRANGEBYSCORE GEOADD GEORADIUS XADD XDEL XTRIM XACK XCLAIM "
        "XAUTOCLAIM XREADGROUP PFADD PFMERGE PUBLISH EVAL EVALSHA FCALL FLUSHALL FLUSHDB JSON.SET TS.ADD "
        "BF.ADD CF.ADD",
    ),
    "Memcached": _row(
        "get gets mget",
        "set add replace append prepend cas delete incr decr touch gat flush_all",
    ),
    "MongoDB": _row(
        "find findOne count countDocuments estimatedDocumentCount distinct getMore listCollections "
        "listIndexes listDatabases dbStats collStats isMaster",
        "insert insertOne insertMany update updateOne updateMany replaceOne delete deleteOne deleteMany "
        "findAndModify findOneAndUpdate findOneAndDelete findOneAndReplace bulkWrite aggregate mapReduce "
        "create createIndexes drop dropIndexes dropDatabase renameCollection commitTransaction",
    ),
    "Elasticsearch and OpenSearch": _row(
        "search msearch get mget count exists field_caps termvectors mtermvectors scroll search_template "
        "knn_search terms_enum rank_eval validate_query esql.query sql.query eql.search cat.indices "
        "cluster.health indices.get",
        "index create update delete bulk update_by_query delete_by_query reindex clear_scroll "
        "indices.create indices.delete indices.put_mapping indices.refresh indices.rollover "
        "ingest.put_pipeline put_script",
    ),
    "DynamoDB": _row(
        "GetItem BatchGetItem TransactGetItems Query Scan DescribeTable ListTables",
        "PutItem UpdateItem DeleteItem BatchWriteItem TransactWriteItems CreateTable DeleteTable "
        "UpdateTable ExecuteStatement BatchExecuteStatement ExecuteTransaction",
    ),
    "Amazon S3": _row(
        "GetObject HeadObject HeadBucket ListObjects ListObjectsV2 ListBuckets ListParts "
        "GetBucketLocation GetObjectTagging GetObjectAttributes SelectObjectContent",
        "PutObject CopyObject DeleteObject DeleteObjects CreateMultipartUpload UploadPart UploadPartCopy "
        "CompleteMultipartUpload AbortMultipartUpload PutObjectTagging RestoreObject",
    ),
    "Other services of AWS": _row(
        "GetParameter GetParameters GetParametersByPath GetSecretValue DescribeSecret GetQueueUrl "
        "GetQueueAttributes ListQueues KMS.Decrypt GetPublicKey KMS.Verify GetCallerIdentity AdminGetUser "
        "GetUser FilterLogEvents GetLogEvents GetMetricData DescribeInstances DescribeExecution "
        "GetFunction",
        "GetActivityTask PollForActivityTask PollForDecisionTask PollForJobs PollForTask AcknowledgeJob "
        "SendTaskSuccess StartExecution ReceiveMessage DeleteMessage ChangeMessageVisibility SendMessage "
        "PurgeQueue PutRecords PutEvents Publish Invoke AssumeRole GenerateDataKey PutParameter "
        "UpdateSecret RunTask SubmitJob PutMetricData SendEmail SignUp InitiateAuth",
    ),
    "Google Cloud": _row(
        "Datastore/Lookup Datastore/RunQuery Datastore/RunAggregationQuery Firestore/GetDocument "
        "Firestore/BatchGetDocuments Firestore/ListDocuments Firestore/RunQuery "
        "Firestore/RunAggregationQuery Spanner/Read Spanner/StreamingRead Spanner/GetSession "
        "Bigtable/ReadRows Bigtable/SampleRowKeys Storage/GetObject Storage/ReadObject "
        "Storage/ListObjects SecretManagerService/AccessSecretVersion CloudTasks/GetTask "
        "CloudTasks/ListTasks",
        "Datastore/Commit Datastore/AllocateIds Datastore/ReserveIds Firestore/Commit "
        "Firestore/BatchWrite Firestore/CreateDocument Spanner/Commit Spanner/ExecuteSql "
        "Spanner/ExecuteStreamingSql Spanner/ExecuteBatchDml Bigtable/MutateRow Bigtable/MutateRows "
        "Bigtable/CheckAndMutateRow Bigtable/ReadModifyWriteRow Storage/DeleteObject Storage/WriteObject "
        "Storage/ComposeObject Storage/RewriteObject Publisher/Publish Subscriber/Pull "
        "Subscriber/StreamingPull Subscriber/Acknowledge Subscriber/ModifyAckDeadline "
        "CloudTasks/CreateTask CloudTasks/RunTask CloudTasks/LeaseTasks CloudTasks/DeleteTask",
    ),
    "Azure": _row(
        "BlobClient.getProperties BlobClient.download BlobClient.exists ContainerClient.listBlobsFlat "
        "TableClient.getEntity TableClient.listEntities CosmosContainer.readItem "
        "CosmosContainer.queryItems QueueClient.peekMessages ServiceBusReceiver.peekMessages "
        "SecretClient.getSecret ConfigurationClient.getConfigurationSetting",
        "BlobClient.upload BlobClient.delete BlobLeaseClient.acquireLease BlobClient.setMetadata "
        "QueueClient.receiveMessages QueueClient.sendMessage QueueClient.deleteMessage "
        "ServiceBusReceiver.receiveMessages ServiceBusReceiver.receiveAndDelete "
        "ServiceBusReceiver.complete ServiceBusSender.send EventHubProducerClient.send "
        "TableClient.upsertEntity TableClient.submitTransaction CosmosContainer.createItem "
        "CosmosContainer.upsertItem CosmosContainer.patchItem CosmosContainer.replaceItem",
    ),
    "etcd": _row(
        "KV/Range Lease/LeaseTimeToLive Maintenance/Status Cluster/MemberList",
        "KV/Put KV/DeleteRange KV/Txn Lease/LeaseGrant Lease/LeaseKeepAlive Lease/LeaseRevoke Lock/Lock",
    ),
    "Queues of tasks": _row(
        "Scheduler.getTask JobRepository.findJob TaskService.getTaskById",
        "ExternalTask.fetchAndLock TaskService.getAndLock JobQueue.dequeue JobQueue.claim "
        "JobStore.leaseJob JobStore.acquireNextTriggers WorkQueue.take WorkQueue.poll "
        "PollWorkflowTaskQueue PollActivityTaskQueue Queue.popJob Queue.reserve getNextJob GetWork "
        "getWorkItem checkoutTask",
    ),
}
# fmt: on
# Words that every service uses are told by other rules; these are names of stores alone.
_TELLING: Final = frozenset(("distinct", "gets", "mget", "msearch", "mtermvectors", "scroll", "termvectors"))
_KNOWN: Final = {
    name: name in store.reads
    for store in STORES.values()
    for name in (*store.reads, *store.writes)
    if name in _TELLING or not (name.islower() and name.isalpha())
}


def known_read(operation: str) -> bool | None:
    """Whether an operation of a store reads; None for one that is in no row of `STORES`, or in no row alone.

    Args:
        operation: name of a span: a command (`HGET`), with what it is of (`distinct orders`), a method with
            its service (`S3.HeadObject`, `google.datastore.v1.Datastore/RunQuery`).
    """
    first = operation.split(" ", maxsplit=1)[0]
    method = first.replace("/", ".").rpartition(".")[2]
    service = first[: -len(method) - 1].rpartition(".")[2] if len(method) < len(first) else ""
    mark = first[-len(method) - 1] if service else ""
    names = (first, f"{service}{mark}{method}", method)
    return next((_KNOWN[name] for name in names if name in _KNOWN), None)
