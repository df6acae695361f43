//! The objects that only the provisioning directory may change.

use std::sync::Arc;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::model::provisioned::{Mark, Provisioned};
use crate::store::StoreError;

impl Broker {
    /// Which objects come from files.
    pub fn provisioned(&self) -> Arc<Provisioned> {
        self.shared.provisioned.get()
    }

    /// Only files change these objects from now on, and all others are changed by everybody.
    pub async fn set_provisioned(&self, marks: Vec<Mark>) -> Result<(), StoreError> {
        let provisioned: Provisioned = marks.iter().cloned().collect();
        if provisioned != *self.provisioned() {
            self.store().provisioned.replace(marks).await?;
            self.shared.provisioned.set(provisioned);
        }
        Ok(())
    }

    /// Why the provisioning directory is not in force as it is, and since when.
    pub fn provisioning_problem(&self) -> Arc<Option<(Timestamp, String)>> {
        self.shared.provisioning_problem.get()
    }

    /// Notes how the last look at the provisioning directory ended. A problem that lasts is logged once, and counted
    /// each time.
    pub fn note_provisioning(&self, problem: Option<String>) {
        let Some(problem) = problem else {
            return self.shared.provisioning_problem.set(None);
        };
        self.meters().provisioning_failed();
        let known = self.provisioning_problem();
        if known
            .as_ref()
            .as_ref()
            .is_none_or(|(_, known)| *known != problem)
        {
            tracing::error!(%problem, "the provisioning directory is not in force as it is");
            let now = self.clock().now();
            self.shared.provisioning_problem.set(Some((now, problem)));
        }
    }
}
