//! The table of the API: each route with its path, its method, who may call it, its handler, what it takes
//! and answers, and what it is for. The router and the OpenAPI document are made from it.

mod access_rules;
mod administration;
mod alerts;
mod appliance;
#[expect(
    dead_code,
    clippy::large_enum_variant,
    reason = "for their schemas alone"
)]
mod bodies;
mod configuration;
mod dead_letters;
mod development;
mod events;
mod explain;
mod inspectors;
mod message_queues;
mod namespaces;
mod people;
mod publish;
mod pull;
mod queues;
mod replays;
mod route;
mod service_bus;
mod settings;
mod subscriptions;
mod topics;

pub(crate) use route::{Area, Route, RouteAccess, RouteParameters};

use crate::api::ApiOptions;

/// All areas, in the order in which people meet them.
pub(crate) fn areas(options: &ApiOptions) -> Vec<Area> {
    let production = vec![
        publish::area(options),
        topics::area(),
        subscriptions::area(),
        namespaces::area(),
        pull::area(),
        message_queues::area(),
        service_bus::area(),
        administration::area(),
        access_rules::area(),
        events::area(),
        explain::area(options),
        dead_letters::area(options),
        queues::area(),
        replays::area(),
        inspectors::area(),
        alerts::area(),
        people::area(),
        configuration::area(),
        settings::area(),
        appliance::area(options),
    ];
    let development = options.dev.is_some().then(development::area);
    production.into_iter().chain(development).collect()
}

/// Every route.
pub(crate) fn all(options: &ApiOptions) -> impl Iterator<Item = Route> {
    areas(options).into_iter().flat_map(|area| area.routes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::AzureScope;
    use crate::api::publish::PublishAddress;
    use crate::model::limits::PUBLISH_BYTES_MAX;
    use crate::wire::service_bus::atom::AtomPath;
    use crate::wire::{pull, service_bus};

    #[test]
    fn what_is_found_before_others_is_in_the_table() {
        let options = ApiOptions {
            publish_bytes_max: PUBLISH_BYTES_MAX,
            metrics_public: false,
            dev: None,
            azure: AzureScope::ANY,
        };
        let before_others = all(&options).filter(Route::is_before_others);
        let told: BTreeSet<String> = before_others
            .map(|route| format!("{} {}", route.method, route.path))
            .collect();
        let pulled = pull::paths().map(|path| format!("POST {path}"));
        let queued = service_bus::address::served();
        let queued = queued.map(|(method, path)| format!("{method} {path}"));
        let published = PublishAddress::paths().map(|path| format!("POST {path}"));
        let administered = AtomPath::served();
        let administered = administered.map(|(method, at)| format!("{method} /{}", at.path()));
        let known = pulled.chain(queued).chain(published).chain(administered);
        assert_eq!(told, known.collect());
    }
}
