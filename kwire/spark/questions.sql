-- Questions to the views of kwire.spark.questions.register_tables, in Spark's SQL.
-- Names behind a colon are parameters: spark.sql(text, args={"since": ..., "seconds": ...}).

-- question: who_changed_what
-- Each change of a topic, config, ACL, user, quota, feature or token since :since, with what it
-- changed, and the client that asked for it where the audit topic is at hand.
SELECT c.cluster_id, c.timestamp, c.kind, c.name, c.op,
       map_filter(c.before, (k, v) -> NOT v <=> c.after[k]) AS before,
       map_filter(c.after, (k, v) -> NOT v <=> c.before[k]) AS after,
       a.principal, a.host, a.client_id, a.api, c.offset
FROM changed c
LEFT JOIN audit a
  ON c.offset BETWEEN a.offset AND a.last_offset
 AND (a.cluster_id IS NULL OR a.cluster_id = c.cluster_id)
WHERE c.kind IN ('topic', 'config', 'acl', 'user', 'quota', 'feature', 'token')
  AND c.op <> 'r'
  AND c.timestamp >= :since
ORDER BY c.cluster_id, c.offset, c.kind, c.name;

-- question: under_replicated
-- Each span of more than :seconds in which a partition had fewer replicas in sync than it is to
-- have, the longest first. A span without an end lasts to the end of the log.
WITH states AS (
  SELECT *, size(isr) < size(array_except(replicas, addingReplicas)) AS lacks
  FROM partitions_versions
), edges AS (
  SELECT *, lacks AND NOT coalesce(lag(lacks) OVER in_order, false) AS begins
  FROM states
  WINDOW in_order AS (PARTITION BY cluster_id, topicId, partition ORDER BY valid_from_offset, valid_to_offset NULLS LAST)
), numbered AS (
  SELECT *, sum(CAST(begins AS INT)) OVER (
    PARTITION BY cluster_id, topicId, partition ORDER BY valid_from_offset, valid_to_offset NULLS LAST
    ROWS UNBOUNDED PRECEDING) AS span
  FROM edges
), spans AS (
  SELECT cluster_id, topic, partition, topicId,
         min(valid_from) AS since,
         CASE WHEN bool_or(valid_to IS NULL) THEN NULL ELSE max(valid_to) END AS until,
         min(size(isr)) AS fewestInSync,
         max(size(array_except(replicas, addingReplicas))) AS replicas
  FROM numbered
  WHERE lacks
  GROUP BY cluster_id, topicId, topic, partition, span
), ends AS (
  SELECT cluster_id, max(timestamp) AS last FROM changed GROUP BY cluster_id
)
SELECT s.cluster_id, topic, partition, since, until,
       round(CAST(coalesce(until, last) AS DOUBLE) - CAST(since AS DOUBLE), 3) AS seconds,
       fewestInSync, replicas
FROM spans s LEFT JOIN ends e ON s.cluster_id = e.cluster_id
WHERE CAST(coalesce(until, last) AS DOUBLE) - CAST(since AS DOUBLE) > :seconds
ORDER BY seconds DESC, cluster_id, topic, partition, since;

-- question: flapping_brokers
-- How often each broker was fenced since :since, and for how long in all, the worst first. A
-- restart counts, too; a span without an end lasts to the end of the log.
WITH edges AS (
  SELECT *, fenced AND NOT coalesce(lag(fenced) OVER in_order, false) AS begins
  FROM brokers_versions
  WINDOW in_order AS (PARTITION BY cluster_id, id ORDER BY valid_from_offset, valid_to_offset NULLS LAST)
), ends AS (
  SELECT cluster_id, max(timestamp) AS last FROM changed GROUP BY cluster_id
)
SELECT b.cluster_id, id,
       count_if(begins) AS fencedTimes,
       round(sum(CAST(coalesce(valid_to, last) AS DOUBLE) - CAST(valid_from AS DOUBLE)), 3)
         AS fencedSeconds,
       max(valid_from) AS lastFenced
FROM edges b LEFT JOIN ends e ON b.cluster_id = e.cluster_id
WHERE fenced AND valid_from >= :since
GROUP BY b.cluster_id, id
ORDER BY fencedTimes DESC, fencedSeconds DESC, cluster_id, id;

-- question: config_drift
-- Each config that is not the same where it could be: of a topic that several clusters have, of the
-- brokers of one cluster, of the defaults of all brokers in several clusters. Values by cluster, or
-- by broker; null where it is not set.
WITH one AS (
  SELECT cluster_id, resourceType, resourceName, explode(configs) AS (name, value) FROM configs
), settings AS (
  SELECT 'topic' AS scope, resourceName AS resource, cluster_id AS holder, name, value
  FROM one WHERE resourceType = 'TOPIC'
  UNION ALL
  SELECT 'broker', cluster_id, resourceName, name, value
  FROM one WHERE resourceType = 'BROKER' AND resourceName <> ''
  UNION ALL
  SELECT 'brokers by default', '', cluster_id, name, value
  FROM one WHERE resourceType = 'BROKER' AND resourceName = ''
), holders AS (
  SELECT 'topic' AS scope, name AS resource, cluster_id AS holder FROM topics
  UNION ALL SELECT 'broker', cluster_id, CAST(id AS STRING) FROM brokers
  UNION ALL SELECT DISTINCT 'brokers by default', '', cluster_id FROM brokers
), wanted AS (
  SELECT DISTINCT scope, resource, name FROM settings
)
SELECT w.scope, w.resource, w.name,
       map_from_entries(array_sort(collect_list(struct(h.holder, s.value)))) AS values
FROM wanted w
JOIN holders h ON h.scope = w.scope AND h.resource = w.resource
LEFT JOIN settings s
  ON s.scope = w.scope AND s.resource = w.resource AND s.name = w.name AND s.holder = h.holder
GROUP BY w.scope, w.resource, w.name
HAVING count(DISTINCT s.value) + max(CAST(s.value IS NULL AS INT)) > 1
ORDER BY scope, resource, name;

-- question: recreated_topics
-- Topics that were deleted and created again under their name, with the ids in their order. A client
-- that knows the old id reads another topic.
SELECT cluster_id, name, count(*) AS lives,
       transform(array_sort(collect_list(struct(created, id))), one -> one.id) AS ids,
       max(created) AS lastCreated
FROM (
  SELECT cluster_id, name, id, min(valid_from) AS created
  FROM topics_versions
  GROUP BY cluster_id, name, id
)
GROUP BY cluster_id, name
HAVING count(*) > 1
ORDER BY cluster_id, name;
