//! Who may publish, by network address: the same properties on topics and namespaces (rule 3.2).

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::InvalidResource;
use super::fields::Fields;
use crate::model::limits::INBOUND_IP_RULES_MAX;
use crate::model::topic::NetworkAccess;
use crate::wire::bad_input::quoted;

/// Reads `publicNetworkAccess` and `inboundIpRules`; what an update does not mention stays.
pub(super) fn read(
    properties: &Fields,
    current: Option<&NetworkAccess>,
) -> Result<NetworkAccess, InvalidResource> {
    let options = [("Enabled", false), ("Disabled", true)];
    Ok(NetworkAccess {
        disabled: properties.updated(
            "publicNetworkAccess",
            current.map(|each| &each.disabled),
            |properties| {
                let disabled = properties.choice("publicNetworkAccess", &options)?;
                Ok(disabled.unwrap_or(false))
            },
        )?,
        allowed: properties.updated(
            "inboundIpRules",
            current.map(|each| &each.allowed),
            read_ip_rules,
        )?,
    })
}

fn read_ip_rules(properties: &Fields) -> Result<Vec<IpNet>, InvalidResource> {
    let rules = properties.objects("inboundIpRules")?.unwrap_or_default();
    if rules.len() > INBOUND_IP_RULES_MAX {
        let problem = format!(
            "at most {INBOUND_IP_RULES_MAX} rules are allowed, but there are {}",
            rules.len()
        );
        return Err(properties.invalid("inboundIpRules", problem));
    }
    rules.iter().map(read_ip_rule).collect()
}

fn read_ip_rule(rule: &Fields) -> Result<IpNet, InvalidResource> {
    rule.expect_names(&["ipMask", "action"])?;
    rule.choice("action", &[("Allow", ())])?;
    let expected = "an address or a network such as \"10.1.0.0/16\"";
    let text = rule.required_text("ipMask", expected)?;
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    let problem = || format!("it must be {expected}, but it is {}", quoted(text));
    text.parse::<IpNet>()
        .or_else(|_| address())
        .map_err(|_| rule.invalid("ipMask", problem()))
}

/// Writes both properties into `properties`.
pub(super) fn render(properties: &mut Value, access: &NetworkAccess) {
    let rules: Vec<Value> = access.allowed.iter().map(render_ip_rule).collect();
    properties["publicNetworkAccess"] = match access.disabled {
        true => json!("Disabled"),
        false => json!("Enabled"),
    };
    properties["inboundIpRules"] = json!(rules);
}

fn render_ip_rule(allowed: &IpNet) -> Value {
    json!({ "ipMask": allowed.to_string(), "action": "Allow" })
}
