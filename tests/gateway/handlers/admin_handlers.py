"""The handlers of admin APIs by name, as tests of other handlers import their modules."""

from __future__ import annotations

from gateway.handlers.context import Handler
from gateway.handlers.table import controller_handlers
from kwire.protocol import ApiKey

allocate_producer_ids: Handler = controller_handlers()[ApiKey.ALLOCATE_PRODUCER_IDS]
alter_client_quotas: Handler = controller_handlers()[ApiKey.ALTER_CLIENT_QUOTAS]
alter_configs: Handler = controller_handlers()[ApiKey.ALTER_CONFIGS]
alter_partition: Handler = controller_handlers()[ApiKey.ALTER_PARTITION]
alter_partition_reassignments: Handler = controller_handlers()[ApiKey.ALTER_PARTITION_REASSIGNMENTS]
alter_user_scram_credentials: Handler = controller_handlers()[ApiKey.ALTER_USER_SCRAM_CREDENTIALS]
assign_replicas_to_dirs: Handler = controller_handlers()[ApiKey.ASSIGN_REPLICAS_TO_DIRS]
broker_heartbeat: Handler = controller_handlers()[ApiKey.BROKER_HEARTBEAT]
broker_registration: Handler = controller_handlers()[ApiKey.BROKER_REGISTRATION]
controller_registration: Handler = controller_handlers()[ApiKey.CONTROLLER_REGISTRATION]
create_acls: Handler = controller_handlers()[ApiKey.CREATE_ACLS]
create_delegation_token: Handler = controller_handlers()[ApiKey.CREATE_DELEGATION_TOKEN]
create_partitions: Handler = controller_handlers()[ApiKey.CREATE_PARTITIONS]
create_topics: Handler = controller_handlers()[ApiKey.CREATE_TOPICS]
delete_acls: Handler = controller_handlers()[ApiKey.DELETE_ACLS]
delete_topics: Handler = controller_handlers()[ApiKey.DELETE_TOPICS]
elect_leaders: Handler = controller_handlers()[ApiKey.ELECT_LEADERS]
expire_delegation_token: Handler = controller_handlers()[ApiKey.EXPIRE_DELEGATION_TOKEN]
incremental_alter_configs: Handler = controller_handlers()[ApiKey.INCREMENTAL_ALTER_CONFIGS]
list_partition_reassignments: Handler = controller_handlers()[ApiKey.LIST_PARTITION_REASSIGNMENTS]
renew_delegation_token: Handler = controller_handlers()[ApiKey.RENEW_DELEGATION_TOKEN]
unregister_broker: Handler = controller_handlers()[ApiKey.UNREGISTER_BROKER]
update_features: Handler = controller_handlers()[ApiKey.UPDATE_FEATURES]
