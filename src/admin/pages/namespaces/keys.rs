//! Showing and renewing the keys of a namespace.

use crate::admin::page::*;
use crate::admin::pages::keys::{Keyed, OnlyKey};
use crate::admin::pages::namespaces::draw_namespace;
use crate::model::access::KeyName;
use crate::model::audit::Caller;
use crate::model::registry::NamespaceEntry;

/// The page of the namespace with its keys on it.
pub(crate) async fn reveal_keys(
    State(site): State<Arc<Site>>,
    Query(only): Query<OnlyKey>,
    Call { of, visitor, .. }: Call<Arc<NamespaceEntry>>,
) -> PageResult {
    let shown = only.chosen()?;
    let visitor = visitor.with_flash().await?;
    let (by, name) = (&visitor.caller, &of.namespace.name);
    site.broker.show_namespace_keys(by, name).await?;
    draw_namespace(&site, &visitor, &of, shown).await
}

impl Keyed for Arc<NamespaceEntry> {
    fn name(&self) -> &str {
        self.namespace.name.as_str()
    }

    async fn regenerate(&self, site: &Site, by: &Caller, key: KeyName) -> Result<(), PageError> {
        let name = &self.namespace.name;
        site.broker.regenerate_namespace_key(by, name, key).await?;
        Ok(())
    }
}
