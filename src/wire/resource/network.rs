//! Who may publish, by network address: the same properties on topics and namespaces (rule 3.2).

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::rules::{IP_MASK, read_ip_mask};
use crate::model::limits::INBOUND_IP_RULES_MAX;
use crate::model::topic::NetworkAccess;

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Network {
    /// `Disabled` rejects every publisher.
    #[serde(default)]
    #[schemars(extend("x-answered" = true))]
    public_network_access: Access,
    /// Where publishers may be; empty for anywhere.
    #[serde(default)]
    #[schemars(length(max = INBOUND_IP_RULES_MAX), extend("x-noun" = "rules"))]
    inbound_ip_rules: Vec<IpRule>,
}

#[derive(Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
enum Access {
    #[default]
    Enabled,
    Disabled,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InboundIpRule")]
struct IpRule {
    /// An address or a network.
    #[serde(deserialize_with = "network")]
    #[schemars(with = "String", length(min = 1), example = "10.1.0.0/16")]
    #[schemars(extend("x-expected" = IP_MASK, "x-check" = "ipMask"))]
    ip_mask: IpNet,
    #[serde(default)]
    action: Action,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
enum Action {
    #[default]
    Allow,
}

fn network<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IpNet, D::Error> {
    let text = String::deserialize(deserializer)?;
    read_ip_mask(&text).ok_or_else(|| D::Error::custom("no such network"))
}

impl From<&NetworkAccess> for Network {
    fn from(access: &NetworkAccess) -> Self {
        let rule = |network: &IpNet| IpRule {
            ip_mask: *network,
            action: Action::Allow,
        };
        Self {
            public_network_access: if access.disabled {
                Access::Disabled
            } else {
                Access::Enabled
            },
            inbound_ip_rules: access.allowed.iter().map(rule).collect(),
        }
    }
}

impl From<Network> for NetworkAccess {
    fn from(network: Network) -> Self {
        Self {
            disabled: network.public_network_access == Access::Disabled,
            allowed: network
                .inbound_ip_rules
                .into_iter()
                .map(|rule| rule.ip_mask)
                .collect(),
        }
    }
}
