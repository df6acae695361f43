//! The integration tests: one binary, one module per subject.

mod batch;
mod crash;
mod demo;
mod failing_disk;
mod filter;
mod golden;
mod grid;
mod manage;
mod publish;
mod retry;
mod store_conformance;
mod templates;
mod tidy;
