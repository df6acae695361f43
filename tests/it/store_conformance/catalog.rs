//! Namespaces, topics and event subscriptions.

use everpost::model::access::KeyName;
use everpost::model::name::{NamespaceName, RuleName};
use everpost::model::namespace::NamespaceId;
use everpost::model::rule::Rule;
use everpost::model::subscription::SubscriptionDefinition;
use everpost::store::NamespaceChange;

use super::*;

/// Everything in it, by name.
fn contents(registry: &Registry) -> String {
    let namespaces: Vec<_> = registry.namespaces().collect();
    let topics: Vec<_> = registry.topics().collect();
    let by_id = registry.subscriptions().map(|(topic, subscription)| {
        let found = registry.subscription(subscription.id).expect("by its id");
        assert!(Arc::ptr_eq(found.1, subscription));
        let found = registry.topic_by_id(topic.topic.id).expect("by its id");
        assert!(Arc::ptr_eq(found, topic));
    });
    let shown = |keys: &AccessKeys| format!("{} {}", keys.key1.reveal(), keys.key2.reveal());
    let keys = topics
        .iter()
        .flat_map(|topic| topic.access_keys().map(|(_, keys)| keys));
    let keys: Vec<String> = keys.map(shown).collect();
    format!("{} {namespaces:?} {topics:?} {keys:?}", by_id.count())
}

fn keys(seed: u64) -> AccessKeys {
    AccessKeys::generate(&Entropy::seeded(seed))
}

fn definition(f: &Fixture, registry: &Registry) -> SubscriptionDefinition {
    let (_, billing) = registry.subscription(f.billing).expect("billing");
    billing.definition.clone()
}

fn add_subscription(f: &Fixture, registry: &Registry, name: &str) -> RegistryChange {
    RegistryChange::AddSubscription {
        topic: f.topic,
        name: SubscriptionName::parse(name).expect("a name"),
        definition: definition(f, registry),
        validation: Validation::succeeded(None),
    }
}

fn rule(name: &str, properties: &serde_json::Value) -> Rule {
    let name = RuleName::parse(name).expect("a name");
    resource::parse_rule(name, &json!({ "properties": properties })).expect("a rule")
}

/// One change of every kind, with deletions of what has something below it.
pub(super) async fn the_catalog_after_a_change_is_what_is_stored(f: Fixture) {
    let before = f.store.ledger.catalog().await.expect("the catalog");
    let namespace = NamespaceId(1);
    let in_namespace = TopicName::parse("shop/orders").expect("a name");
    let topic = resource::parse_topic(&json!({"location": "there"})).expect("a topic");
    let empty = resource::parse_namespace(&json!({"location": "l"})).expect("a namespace");
    let tagged = json!({"location": "l", "tags": {"a": "b"}});
    let tagged = resource::parse_namespace(&tagged).expect("a namespace");
    let (validation, pending) = (Validation::succeeded(Some(7)), OnDelete::Discard);
    let queue = json!({ "properties": { "maxSizeInMegabytes": 7, "lockDuration": "PT7S" } });
    let queue = resource::parse_queue(&queue).expect("a queue");
    let steps = [
        RegistryChange::Namespace(NamespaceChange::Add {
            name: NamespaceName::parse("shop").expect("a name"),
            definition: empty,
            keys: keys(2),
        }),
        RegistryChange::AddTopic {
            namespace: Some(namespace),
            name: in_namespace,
            kind: resource::parse_namespace_topic(&json!({})).expect("a topic"),
            keys: keys(3),
        },
        RegistryChange::Namespace(NamespaceChange::Change {
            id: namespace,
            definition: tagged,
        }),
        RegistryChange::Namespace(NamespaceChange::ChangeKeys {
            id: namespace,
            keys: keys(4),
            renewed: KeyName::Key1,
        }),
        RegistryChange::AddQueue {
            name: TopicName::parse("jobs").expect("a name"),
            sending: queue.sending.clone(),
            keys: keys(6),
            subscription: queue.subscription.subscription(),
        },
        RegistryChange::AddServiceBusSubscription {
            topic: f.topic,
            name: SubscriptionName::parse("messages").expect("a name"),
            definition: definition(&f, &before),
            rule: Rule::default_rule(),
        },
        RegistryChange::PutRule {
            of: f.billing,
            rule: rule("a", &json!({ "sqlFilter": { "sqlExpression": "a = 1" } })),
        },
        RegistryChange::PutRule {
            of: f.billing,
            rule: rule("A", &json!({ "correlationFilter": { "label": "x" } })),
        },
        RegistryChange::PutRule {
            of: f.billing,
            rule: rule("b", &json!({ "action": { "sqlExpression": "SET a = 1" } })),
        },
        RegistryChange::DeleteRule {
            of: f.billing,
            name: RuleName::parse("B").expect("a name"),
        },
        RegistryChange::ChangeTopic {
            id: f.topic,
            kind: topic,
        },
        RegistryChange::ChangeKeys {
            id: f.topic,
            keys: keys(5),
            renewed: KeyName::Key2,
        },
        add_subscription(&f, &before, "third"),
        RegistryChange::ChangeSubscription {
            id: f.audit,
            definition: definition(&f, &before),
            validation: validation.clone(),
        },
        RegistryChange::ChangeValidation {
            id: f.billing,
            validation,
        },
        RegistryChange::DeleteSubscription {
            id: f.billing,
            pending,
        },
        RegistryChange::Namespace(NamespaceChange::Delete {
            id: namespace,
            pending,
        }),
        RegistryChange::DeleteTopic {
            id: f.topic,
            pending,
        },
    ];
    let mut last = contents(&before);
    for step in steps {
        let described = format!("{step:?}");
        let after = contents(&changed(&f.store, step).await);
        assert!(after != last, "{described} changes nothing");
        let stored = f.store.ledger.catalog().await.expect("the catalog");
        assert!(
            after == contents(&stored),
            "{described} differs from what is stored"
        );
        last = after;
    }
}

/// What is not read and decrypted again is still the same object.
pub(super) async fn a_change_touches_nothing_else(f: Fixture) {
    let before = f.store.ledger.catalog().await.expect("the catalog");
    let change = add_subscription(&f, &before, "third");
    let after = f
        .store
        .ledger
        .change_catalog(&before, change, Effects::default(), at(1));
    let after = after.await.expect("changed");
    for (_, subscription) in before.subscriptions() {
        let (_, same) = after.subscription(subscription.id).expect("still there");
        assert!(Arc::ptr_eq(same, subscription), "{}", subscription.name);
    }
    for topic in before.topics().filter(|entry| entry.topic.id != f.topic) {
        let same = after.topic_by_id(topic.topic.id).expect("still there");
        assert!(Arc::ptr_eq(same, topic), "{}", topic.topic.name);
    }
    let added = after.subscriptions().count() - before.subscriptions().count();
    assert_eq!(added, 1);
}
