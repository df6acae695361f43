//! The integration tests: one binary, one module per subject.

mod batch;
mod canary;

mod counters;
mod crash;
mod credentials;
mod dead_letter_search;
mod dead_letters;
mod demo;
mod explain;
mod failing_disk;
mod filter;
mod golden;
mod grid;
mod late;
mod locks;
mod manage;
mod mutual_tls;
mod namespaces;
mod pace;
mod probation;
mod publish;
mod rejections;
mod rekey;
mod replay;
mod retention;
mod retry;
mod robust;
mod rows;
mod sim;
mod standing;
mod store_conformance;
mod system_topics;
mod templates;
mod tidy;
