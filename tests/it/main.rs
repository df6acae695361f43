//! The integration tests: one binary, one module per subject.

mod golden;
mod store_conformance;
mod tidy;
