//! The names that the admin area imports from outside of it.

pub(crate) use std::collections::{BTreeMap, BTreeSet, HashMap};
pub(crate) use std::fmt::Display;
pub(crate) use std::net::{IpAddr, SocketAddr};
pub(crate) use std::ops::Deref;
pub(crate) use std::str::FromStr;
pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;

pub(crate) use askama::Template;
pub(crate) use axum::body::{Body, Bytes};
pub(crate) use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request, State};
pub(crate) use axum::middleware::Next;
pub(crate) use axum::response::{Html, IntoResponse, Redirect, Response};
pub(crate) use axum::routing::{MethodRouter, get, post};
pub(crate) use futures_util::future::OptionFuture;
pub(crate) use http::header::{CONTENT_TYPE, HOST};
pub(crate) use http::{HeaderMap, Method, StatusCode};
pub(crate) use serde::de::{DeserializeOwned, IgnoredAny};
pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use serde_json::{Value, json};
pub(crate) use tower_sessions::Session;
pub(crate) use tower_sessions::cookie::{Cookie, SameSite};

pub(crate) use crate::base::{Clock, Timestamp, sha256_hex};
pub(crate) use crate::broker::people::PeopleError;
pub(crate) use crate::broker::{Broker, ErrorKind, ManageError};
pub(crate) use crate::model::access::Secret;
pub(crate) use crate::model::audit::{Caller, Target, TargetKind};
pub(crate) use crate::model::dead_letter::DeadLetterReason;
pub(crate) use crate::model::delivery::{DeliveryAttempt, DeliveryId, Outcome};
pub(crate) use crate::model::name::{InspectorName, NamespaceName, SubscriptionName, TopicName};
pub(crate) use crate::model::registry::{NamespaceEntry, Registry, TopicEntry};
pub(crate) use crate::model::subscription::{EventSubscription, SubscriptionId};
pub(crate) use crate::model::topic::TopicId;
pub(crate) use crate::store::StoreError;
pub(crate) use crate::store::accounts::{Accounts, Role, SessionRecord, User, UserId};
pub(crate) use crate::wire::resource::{Fault, InvalidResource};
