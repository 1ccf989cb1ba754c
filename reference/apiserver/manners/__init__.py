"""What real clusters ask of their guests and no KEP mentions: permissions, quotas, Pod Security Standards.

Here so that a run's good manners on somebody's cluster, and its words when it is refused something, can be tested
without one. The kinds of this room are served beside those of `reference.apiserver.kinds`.
"""

from reference.apiserver.kinds import Strategy
from reference.apiserver.manners.rbac import ClusterRoleBindings, ClusterRoles, RoleBindings, Roles
from reference.apiserver.manners.resource_quotas import ResourceQuotas
from reference.apiserver.manners.service_accounts import ServiceAccounts

KINDS: tuple[Strategy, ...] = (
    ServiceAccounts(),
    ResourceQuotas(),
    Roles(),
    RoleBindings(),
    ClusterRoles(),
    ClusterRoleBindings(),
)

__all__ = ["KINDS"]
