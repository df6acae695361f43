//! What becomes of deliveries that are given up, and where the storage for them is.

use serde_json::{Value, json};

use super::value::text;
use crate::admin::forms::field::Field;
use crate::admin::forms::form::Form;
use crate::model::blob_storage::BlobStorage;
use crate::model::subscription::{DeadLetterDestination, SubscriptionDefinition};

pub(crate) const DESTINATION: &str = "deadLetterDestination";
const CONTAINER: &str = "blobContainerName";
const STORAGE: &str = "storage";

/// Choices of what becomes of dead letters; the last two are also types of storage.
const KEEP: &str = "keep";
const DROP: &str = "drop";
const DIRECTORY: &str = "directory";
const S3: &str = "S3";
const AZURE: &str = "AzureBlob";

/// The properties of each type of storage, by the ends of their fields' names.
const PROPERTIES: [(&str, &[&str]); 2] = [
    (
        S3,
        &["endpointUrl", "region", "accessKeyId", "secretAccessKey"],
    ),
    (
        AZURE,
        &["endpointUrl", "accountName", "accountKey", "sasToken"],
    ),
];

/// The id of a storage account that Azure's form has, and the directory does not need.
const RESOURCE_ID: &str = "everpost";

fn name(property: &str) -> String {
    format!("{STORAGE}.{property}")
}

/// For a new subscription.
pub(crate) fn blank(form: &mut Form) {
    form.set(DESTINATION, KEEP);
}

/// Everything but the secrets; a document says too little about what becomes of dead letters, which
/// `destination` does.
pub(crate) fn fill(form: &mut Form, destination: &DeadLetterDestination, properties: &Value) {
    let choice = match destination {
        DeadLetterDestination::BuiltInQueue => KEEP,
        DeadLetterDestination::Drop => DROP,
        DeadLetterDestination::StorageBlob { storage, .. } => match storage {
            BlobStorage::Directory => DIRECTORY,
            BlobStorage::S3(_) => S3,
            BlobStorage::AzureBlob(_) => AZURE,
        },
    };
    let place = &properties[DESTINATION]["properties"];
    form.set(DESTINATION, choice);
    form.set(CONTAINER, text(&place[CONTAINER]));
    for property in PROPERTIES.iter().flat_map(|(_, properties)| *properties) {
        form.set(name(property), text(&place[STORAGE][property]));
    }
}

/// What a document has no word for is left to [`settle`].
pub(crate) fn write(form: &Form, properties: &mut Value) {
    let choice = form.text(DESTINATION);
    let mut place = json!({ CONTAINER: form.filled(CONTAINER) });
    match PROPERTIES.iter().find(|(kind, _)| *kind == choice) {
        Some((kind, names)) => {
            place[STORAGE] = json!({ "type": kind });
            for property in *names {
                place[STORAGE][property] = form.filled(&name(property)).into();
            }
        }
        None if choice == DIRECTORY => place["resourceId"] = RESOURCE_ID.into(),
        None => return,
    }
    properties[DESTINATION] = json!({ "endpointType": "StorageBlob", "properties": place });
}

/// In a document, leaving the destination of dead letters out means one thing in a new subscription and
/// another in a change, so it is set here for both. An id of Azure's that `current` has stays.
pub(crate) fn settle(
    form: &Form,
    mut definition: SubscriptionDefinition,
    current: Option<&DeadLetterDestination>,
) -> SubscriptionDefinition {
    match (form.text(DESTINATION), &mut definition.dead_letter, current) {
        (
            DIRECTORY | S3 | AZURE,
            DeadLetterDestination::StorageBlob { resource_id, .. },
            Some(DeadLetterDestination::StorageBlob {
                resource_id: known, ..
            }),
        ) if !known.is_empty() => resource_id.clone_from(known),
        (DIRECTORY | S3 | AZURE, ..) => {}
        (DROP, dead_letter, _) => *dead_letter = DeadLetterDestination::Drop,
        (_, dead_letter, _) => *dead_letter = DeadLetterDestination::BuiltInQueue,
    }
    definition
}

/// In a few words.
pub(crate) fn summary(form: &Form) -> &'static str {
    match form.text(DESTINATION) {
        DROP => "dropped: nothing is kept",
        DIRECTORY => "exported to the directory of the server",
        S3 => "exported to S3",
        AZURE => "exported to Azure Blob Storage",
        _ => "kept in the queue of dead letters",
    }
}

/// `current` is what is stored; `None` for a new subscription.
pub(crate) fn fields(form: &Form, current: Option<&DeadLetterDestination>) -> Vec<Field> {
    let choices = [
        (KEEP, "Keep them in the queue of dead letters"),
        (DROP, "Drop them: nothing is kept"),
        (DIRECTORY, "Export them to the directory of the server"),
        (S3, "Export them to S3, or what speaks like it"),
        (AZURE, "Export them to Azure Blob Storage"),
    ];
    let stored = match current {
        Some(DeadLetterDestination::StorageBlob { storage, .. }) => Some(storage),
        Some(DeadLetterDestination::BuiltInQueue | DeadLetterDestination::Drop) | None => None,
    };
    let keeps_s3 = matches!(stored, Some(BlobStorage::S3(_)));
    let keeps_azure = matches!(stored, Some(BlobStorage::AzureBlob(_)));
    let secret = |property: &str, label, keeps: bool, hint: &str| {
        let hint = match keeps {
            true => format!("Leave it empty to keep what is stored for the same account. {hint}"),
            false => hint.to_owned(),
        };
        Field::secret(&name(property), label, form).hint(hint)
    };
    vec![
        Field::choice(DESTINATION, "On final failure", &choices, form),
        Field::line(CONTAINER, "Container of exported dead letters", form)
            .mono()
            .hint(
                "3 to 63 lower-case letters, digits and inner hyphens: a folder of the directory, or the \
                 bucket or container in the storage.",
            )
            .only_for("only-directory only-s3 only-azure"),
        Field::url(&name("endpointUrl"), "Storage endpoint", form)
            .mono()
            .hint("Such as http://minio.internal:9000. Empty calls Amazon's or Azure's own.")
            .only_for("only-s3 only-azure"),
        Field::line(&name("region"), "Region", form)
            .mono()
            .hint("Empty means us-east-1.")
            .only_for("only-s3"),
        Field::line(&name("accessKeyId"), "Access key id", form)
            .mono()
            .only_for("only-s3"),
        secret("secretAccessKey", "Secret access key", keeps_s3, "It is not shown again.")
            .only_for("only-s3"),
        Field::line(&name("accountName"), "Storage account", form)
            .mono()
            .only_for("only-azure"),
        secret("accountKey", "Account key", keeps_azure, "It is not shown again.")
            .only_for("only-azure"),
        secret("sasToken", "SAS token", keeps_azure, "In the place of an account key.")
            .only_for("only-azure"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{CONTEXT, form};
    use super::super::{changed, new};
    use super::*;
    use crate::admin::forms::form::Refusal;
    use crate::model::access::Secret;
    use crate::model::blob_storage::{AzureAccess, AzureAccount, S3Account};
    use crate::model::destination::DeliveryMode;

    fn stored(
        fields: &[(&str, &str)],
        current: Option<&SubscriptionDefinition>,
    ) -> Result<SubscriptionDefinition, Refusal> {
        let fields = [&[(CONTAINER, "dead")], fields].concat();
        match current {
            None => new(&form(&fields), DeliveryMode::Push, &CONTEXT),
            Some(current) => changed(&form(&fields), current, &CONTEXT),
        }
    }

    fn storage(definition: &SubscriptionDefinition) -> &BlobStorage {
        match &definition.dead_letter {
            DeadLetterDestination::StorageBlob { storage, .. } => storage,
            DeadLetterDestination::BuiltInQueue | DeadLetterDestination::Drop => {
                panic!("no storage")
            }
        }
    }

    #[test]
    fn they_go_where_the_choice_says() {
        for (choice, expected) in [
            (KEEP, DeadLetterDestination::BuiltInQueue),
            ("", DeadLetterDestination::BuiltInQueue),
            (DROP, DeadLetterDestination::Drop),
            (
                DIRECTORY,
                DeadLetterDestination::StorageBlob {
                    resource_id: RESOURCE_ID.to_owned(),
                    container: "dead".to_owned(),
                    storage: BlobStorage::Directory,
                },
            ),
        ] {
            let definition = stored(&[(DESTINATION, choice)], None).expect(choice);
            assert_eq!(definition.dead_letter, expected);
            let again = stored(&[(DESTINATION, choice)], Some(&definition)).expect(choice);
            assert_eq!(again.dead_letter, expected);
            let kept = stored(&[(DESTINATION, KEEP)], Some(&definition)).expect(choice);
            assert_eq!(kept.dead_letter, DeadLetterDestination::BuiltInQueue);
        }
    }

    #[test]
    fn a_secret_of_s3_stays_as_long_as_its_key_does() {
        let account = |id| {
            let endpoint = ("storage.endpointUrl", "http://minio.test:9000");
            vec![
                (DESTINATION, S3),
                endpoint,
                ("storage.accessKeyId", id),
                ("storage.region", "eu"),
            ]
        };
        let first = [account("id"), vec![("storage.secretAccessKey", "hush")]].concat();
        let first = stored(&first, None).expect("a definition");
        let BlobStorage::S3(expected) = storage(&first) else {
            panic!("no S3");
        };
        let S3Account {
            access_key_id,
            secret_access_key,
            ..
        } = &**expected;
        assert_eq!(
            (access_key_id.as_str(), secret_access_key),
            ("id", &Secret::new("hush"))
        );
        let second = stored(&account("id"), Some(&first)).expect("a definition");
        assert_eq!(storage(&second), storage(&first));
        let refusal = stored(&account("other"), Some(&first)).expect_err("no secret");
        assert_eq!(
            refusal.closeness("storage.secretAccessKey"),
            2,
            "{refusal:?}"
        );
    }

    #[test]
    fn a_secret_of_azure_stays_and_another_kind_takes_its_place() {
        let account = [(DESTINATION, AZURE), ("storage.accountName", "shop")];
        let with =
            |secret| stored(&[&account[..], &[secret]].concat(), None).expect("a definition");
        let first = with(("storage.accountKey", "aHVzaA=="));
        let second = stored(&account, Some(&first)).expect("a definition");
        assert_eq!(storage(&second), storage(&first));
        let third = [&account[..], &[("storage.sasToken", "sv=1")]].concat();
        let third = stored(&third, Some(&first)).expect("a definition");
        let expected = AzureAccount {
            name: "shop".to_owned(),
            endpoint: None,
            access: AzureAccess::SasToken(Secret::new("sv=1")),
        };
        assert_eq!(storage(&third), &BlobStorage::AzureBlob(Box::new(expected)));
    }

    #[test]
    fn what_is_wrong_with_storage_is_told_by_its_field() {
        for (choice, field, value) in [
            (DIRECTORY, CONTAINER, "No!"),
            (S3, "storage.accessKeyId", ""),
            (S3, "storage.endpointUrl", "minio"),
            (S3, "storage.region", "e u"),
            (AZURE, "storage.accountName", ""),
            (AZURE, "storage.accountKey", "no base64"),
        ] {
            let mut fields = vec![
                (DESTINATION, choice),
                (CONTAINER, "dead"),
                ("storage.accessKeyId", "id"),
                ("storage.secretAccessKey", "hush"),
                ("storage.accountName", "shop"),
                ("storage.accountKey", "aHVzaA=="),
            ];
            fields.insert(0, (field, value));
            let refusal = new(&form(&fields), DeliveryMode::Push, &CONTEXT).expect_err(field);
            let most = field.split('.').count();
            assert_eq!(refusal.closeness(field), most, "{field}: {refusal:?}");
        }
    }
}
