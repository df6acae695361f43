//! What becomes of deliveries that are given up.

use serde_json::{Value, json};

use crate::admin::field::Field;
use crate::admin::form::Form;
use crate::model::blob_storage::BlobStorage;
use crate::model::subscription::{DeadLetterDestination, SubscriptionDefinition};

const DESTINATION: &str = "deadLetterDestination";
const CONTAINER: &str = "blobContainerName";

/// Choices of what becomes of dead letters.
const KEEP: &str = "keep";
const DROP: &str = "drop";
const STORAGE: &str = "storage";

/// The id of a storage account that Azure's form has, and the directory does not need.
const RESOURCE_ID: &str = "everpost";

/// For a new subscription.
pub(super) fn blank(form: &mut Form) {
    form.set(DESTINATION, KEEP);
}

pub(super) fn fill(form: &mut Form, destination: &DeadLetterDestination) {
    let choice = match destination {
        DeadLetterDestination::BuiltInQueue => KEEP,
        DeadLetterDestination::Drop => DROP,
        DeadLetterDestination::StorageBlob { .. } => STORAGE,
    };
    form.set(DESTINATION, choice);
    form.set(CONTAINER, container_of(destination));
}

fn container_of(destination: &DeadLetterDestination) -> &str {
    match destination {
        DeadLetterDestination::StorageBlob { container, .. } => container,
        DeadLetterDestination::BuiltInQueue | DeadLetterDestination::Drop => "",
    }
}

pub(super) fn write(form: &Form, properties: &mut Value) {
    if let Some(storage) = storage(form) {
        properties[DESTINATION] = storage;
    }
}

/// The storage that they are exported to, if they are.
pub(super) fn storage(form: &Form) -> Option<Value> {
    (form.text(DESTINATION) == STORAGE).then(|| {
        let place = json!({ "resourceId": RESOURCE_ID, CONTAINER: form.filled(CONTAINER) });
        json!({ "endpointType": "StorageBlob", "properties": place })
    })
}

/// In a document, leaving the destination of dead letters out means one thing in a new subscription and
/// another in a change, so it is set here for both.
pub(super) fn settle(
    form: &Form,
    definition: SubscriptionDefinition,
    current: Option<&DeadLetterDestination>,
) -> SubscriptionDefinition {
    let dead_letter = match (form.text(DESTINATION), current) {
        (DROP, _) => DeadLetterDestination::Drop,
        (STORAGE, Some(current)) => in_container(current, container_of(&definition.dead_letter)),
        (STORAGE, None) => definition.dead_letter,
        _ => DeadLetterDestination::BuiltInQueue,
    };
    SubscriptionDefinition {
        dead_letter,
        ..definition
    }
}

/// The form has no storage, so that of before stays.
fn in_container(current: &DeadLetterDestination, name: &str) -> DeadLetterDestination {
    let (resource_id, storage) = match current {
        DeadLetterDestination::StorageBlob {
            resource_id,
            storage,
            ..
        } => (resource_id.clone(), storage.clone()),
        DeadLetterDestination::BuiltInQueue | DeadLetterDestination::Drop => {
            (RESOURCE_ID.to_owned(), BlobStorage::Directory)
        }
    };
    DeadLetterDestination::StorageBlob {
        resource_id,
        container: name.to_owned(),
        storage,
    }
}

pub(super) fn fields(form: &Form) -> Vec<Field> {
    let choices = [
        (KEEP, "Keep them in the queue of dead letters"),
        (DROP, "Drop them: nothing is kept"),
        (STORAGE, "Export them to a container"),
    ];
    vec![
        Field::choice(DESTINATION, "Deliveries that are given up", &choices, form),
        Field::line(CONTAINER, "Container of exported dead letters", form).hint(
            "3 to 63 lower-case letters, digits and inner hyphens. It is in the directory that the server \
             has opened for exports, unless the management API has named other storage.",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{CONTEXT, form};
    use super::super::{changed, new};
    use super::*;
    use crate::model::access::Secret;
    use crate::model::blob_storage::S3Account;
    use crate::model::destination::DeliveryMode;

    #[test]
    fn they_can_go_to_a_container_and_keep_their_storage() {
        let exported = |name: &str| {
            let url = ("endpointUrl", "http://h.test/");
            form(&[url, (DESTINATION, STORAGE), (CONTAINER, name)])
        };
        let mut current =
            new(&exported("dead"), DeliveryMode::Push, &CONTEXT).expect("a definition");
        assert_eq!(container_of(&current.dead_letter), "dead");
        assert!(new(&exported("No!"), DeliveryMode::Push, &CONTEXT).is_err());
        let account = S3Account {
            endpoint: None,
            region: "eu".to_owned(),
            access_key_id: "id".to_owned(),
            secret_access_key: Secret::new("secret"),
        };
        current.dead_letter = DeadLetterDestination::StorageBlob {
            resource_id: String::new(),
            container: "dead".to_owned(),
            storage: BlobStorage::S3(Box::new(account.clone())),
        };
        let moved = changed(&exported("letters"), &current, &CONTEXT).expect("a definition");
        let expected = DeadLetterDestination::StorageBlob {
            resource_id: String::new(),
            container: "letters".to_owned(),
            storage: BlobStorage::S3(Box::new(account)),
        };
        assert_eq!(moved.dead_letter, expected);
    }
}
