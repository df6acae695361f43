//! One route: a method of a path, who is let in, what answers it, and what the API's document says of it.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::api::openapi::Schemas;
use crate::api::routes::bodies::ServiceBusError;
use crate::api::{ApiState, auth, parameters};
use crate::model::limits::MANAGEMENT_BYTES_MAX;
use crate::store::accounts::Role;
use crate::wire::error_body::ErrorBody;

/// JSON, as nearly everything is.
const JSON: &str = "application/json";

/// Routes that belong together.
pub(crate) struct Area {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) routes: Vec<Route>,
}

/// Makes the schema of a body.
pub(crate) type SchemaOf = fn(&mut Schemas) -> Value;

/// Who is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteAccess {
    /// Everybody.
    Public,
    /// Whoever has a key or a signature for the topic, and operators. The handler knows the topic.
    Key,
    /// Whoever has a signature for the dead-letter queue, and operators. The handler knows the queue.
    Queue,
    /// Whoever has a signature with the right to manage, and admins. The handler knows for what.
    Manage,
    /// Whoever has a token of that role.
    Role(Role),
}

pub(crate) const VIEWER: RouteAccess = RouteAccess::Role(Role::Viewer);
pub(crate) const OPERATOR: RouteAccess = RouteAccess::Role(Role::Operator);
pub(crate) const ADMIN: RouteAccess = RouteAccess::Role(Role::Admin);

/// One method of one path.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) access: RouteAccess,
    /// Bytes of a body; `None` where the handler limits them.
    bytes_max: Option<usize>,
    /// `None` for routes that are found before the others.
    handler: Option<MethodRouter<ApiState>>,
    pub(crate) id: String,
    pub(crate) summary: String,
    pub(crate) description: String,
    pub(crate) parameters: Vec<RouteParameters>,
    pub(crate) bodies: Vec<Body>,
    pub(crate) is_body_optional: bool,
    pub(crate) answers: Vec<RouteAnswer>,
}

/// Parameters of a query, or of headers.
pub(crate) enum RouteParameters {
    Query(fn(&mut Schemas) -> Vec<Value>),
    Header(Value),
}

pub(crate) struct Body {
    pub(crate) content_type: &'static str,
    pub(crate) schema: SchemaOf,
    /// One that works.
    pub(crate) example: Value,
}

pub(crate) struct RouteAnswer {
    pub(crate) status: u16,
    pub(crate) description: String,
    /// Content types; none without a body.
    pub(crate) content: Vec<(&'static str, SchemaOf)>,
    /// Headers, all of them texts: names, and what they say.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
}

pub(crate) fn get<T: 'static>(
    path: impl Into<String>,
    access: RouteAccess,
    handler: impl Handler<T, ApiState>,
) -> Route {
    served(Method::GET, path, access, handler)
}

pub(crate) fn put<T: 'static>(
    path: impl Into<String>,
    access: RouteAccess,
    handler: impl Handler<T, ApiState>,
) -> Route {
    served(Method::PUT, path, access, handler)
}

pub(crate) fn patch<T: 'static>(
    path: impl Into<String>,
    access: RouteAccess,
    handler: impl Handler<T, ApiState>,
) -> Route {
    served(Method::PATCH, path, access, handler)
}

pub(crate) fn post<T: 'static>(
    path: impl Into<String>,
    access: RouteAccess,
    handler: impl Handler<T, ApiState>,
) -> Route {
    served(Method::POST, path, access, handler)
}

pub(crate) fn delete<T: 'static>(
    path: impl Into<String>,
    access: RouteAccess,
    handler: impl Handler<T, ApiState>,
) -> Route {
    served(Method::DELETE, path, access, handler)
}

pub(crate) fn options<T: 'static>(
    path: impl Into<String>,
    handler: impl Handler<T, ApiState>,
) -> Route {
    served(Method::OPTIONS, path, RouteAccess::Public, handler)
}

fn served<T: 'static>(
    method: Method,
    path: impl Into<String>,
    access: RouteAccess,
    handler: impl Handler<T, ApiState>,
) -> Route {
    let filter = MethodFilter::try_from(method.clone()).expect("a method of HTTP's own");
    Route {
        handler: Some(on(filter, handler)),
        ..before_others(method, path, access)
    }
}

/// A route that is found before the others: it comes in any letter case, or oftener than all others.
pub(crate) fn before_others(method: Method, path: impl Into<String>, access: RouteAccess) -> Route {
    Route {
        method,
        path: path.into(),
        access,
        bytes_max: match access {
            RouteAccess::Public => Some(0),
            RouteAccess::Key | RouteAccess::Queue | RouteAccess::Manage => None,
            RouteAccess::Role(_) => Some(MANAGEMENT_BYTES_MAX),
        },
        handler: None,
        id: String::new(),
        summary: String::new(),
        description: String::new(),
        parameters: Vec::new(),
        bodies: Vec::new(),
        is_body_optional: false,
        answers: Vec::new(),
    }
}

impl Route {
    /// Its name for clients that are generated, and what it is for.
    pub(crate) fn doc(self, id: impl Into<String>, summary: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            summary: summary.into(),
            ..self
        }
    }

    pub(crate) fn says(self, description: impl Into<String>) -> Self {
        Self {
            description: description.into(),
            ..self
        }
    }

    /// Sets the handler of all other methods, in place of the one that all routes share.
    pub(crate) fn otherwise<T: 'static>(self, handler: impl Handler<T, ApiState>) -> Self {
        Self {
            handler: self.handler.map(|it| it.fallback(handler)),
            ..self
        }
    }

    /// Sets the largest length of bodies, in bytes, in place of the default.
    pub(crate) fn bytes_max(self, bytes_max: usize) -> Self {
        Self {
            bytes_max: Some(bytes_max),
            ..self
        }
    }

    /// Adds parameters in the query, which `T` reads.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.parameters
            .push(RouteParameters::Query(Schemas::parameters::<T>));
        self
    }

    /// Adds a header that may be left out.
    pub(crate) fn header(mut self, name: &str, kind: &str, description: impl Into<String>) -> Self {
        self.parameters.push(RouteParameters::Header(json!({
            "in": "header",
            "name": name,
            "description": description.into(),
            "schema": { "type": kind },
        })));
        self
    }

    /// Adds a body of JSON with an example that works.
    pub(crate) fn takes<T: JsonSchema>(self, example: Value) -> Self {
        self.takes_as::<T>(JSON, example)
    }

    /// Adds a body of JSON that may be left out, with an example that works.
    pub(crate) fn may_take<T: JsonSchema>(self, example: Value) -> Self {
        Self {
            is_body_optional: true,
            ..self.takes::<T>(example)
        }
    }

    /// Adds a body of that content type; one route may take several.
    pub(crate) fn takes_as<T: JsonSchema>(
        self,
        content_type: &'static str,
        example: Value,
    ) -> Self {
        self.body(content_type, Schemas::request::<T>, example)
    }

    /// Changes of a `T`.
    pub(crate) fn updates<T: JsonSchema>(self, example: Value) -> Self {
        self.body(JSON, Schemas::update::<T>, example)
    }

    fn body(mut self, content_type: &'static str, schema: SchemaOf, example: Value) -> Self {
        self.bodies.push(Body {
            content_type,
            schema,
            example,
        });
        self
    }

    /// An answer in JSON.
    pub(crate) fn answers<T: JsonSchema>(
        self,
        status: u16,
        description: impl Into<String>,
    ) -> Self {
        self.answer(status, description, Some((JSON, Schemas::answer::<T>)))
    }

    /// An answer of that content type; one status may have several.
    pub(crate) fn answers_as<T: JsonSchema>(
        self,
        status: u16,
        description: impl Into<String>,
        content_type: &'static str,
    ) -> Self {
        self.answer(
            status,
            description,
            Some((content_type, Schemas::answer::<T>)),
        )
    }

    /// An answer without a body.
    pub(crate) fn answers_nothing(self, status: u16, description: impl Into<String>) -> Self {
        self.answer(status, description, None)
    }

    fn answer(
        mut self,
        status: u16,
        description: impl Into<String>,
        content: Option<(&'static str, SchemaOf)>,
    ) -> Self {
        match self
            .answers
            .iter_mut()
            .find(|answer| answer.status == status)
        {
            Some(answer) => answer.content.extend(content),
            None => self.answers.push(RouteAnswer {
                status,
                description: description.into(),
                content: content.into_iter().collect(),
                headers: Vec::new(),
            }),
        }
        self
    }

    /// Headers of the answer that was named last, all of them texts.
    pub(crate) fn with_headers(mut self, headers: &[(&'static str, &'static str)]) -> Self {
        if let Some(answer) = self.answers.last_mut() {
            answer.headers = headers.to_vec();
        }
        self
    }

    /// An error of its own, beside those that every route of its kind has.
    pub(crate) fn rejects(self, status: u16, description: impl Into<String>) -> Self {
        let error = self.error();
        self.answer(status, description, Some(error))
    }

    /// Returns the content type and the schema of its errors, which clients of Service Bus read in XML.
    pub(crate) fn error(&self) -> (&'static str, SchemaOf) {
        match self.access {
            RouteAccess::Queue | RouteAccess::Manage => {
                ("application/xml", Schemas::answer::<ServiceBusError>)
            }
            RouteAccess::Public | RouteAccess::Key | RouteAccess::Role(_) => {
                (JSON, Schemas::answer::<ErrorBody>)
            }
        }
    }

    /// Reports whether only the table knows the route, and not the router.
    #[cfg(test)]
    pub(crate) fn is_before_others(&self) -> bool {
        self.handler.is_none()
    }

    /// Puts it into `router`, behind its check of who is asking.
    pub(crate) fn add_to(self, router: Router<ApiState>, state: &ApiState) -> Router<ApiState> {
        let Some(handler) = self.handler else {
            return router;
        };
        let limit = match self.bytes_max {
            Some(bytes_max) => DefaultBodyLimit::max(bytes_max),
            None => DefaultBodyLimit::disable(),
        };
        let mut limited = handler.route_layer(limit);
        // Handlers that read parameters reject others themselves.
        let takes_parameters = self
            .parameters
            .iter()
            .any(|each| matches!(each, RouteParameters::Query(_)));
        if matches!(self.access, RouteAccess::Role(_)) && !takes_parameters {
            limited = limited.route_layer(from_fn(parameters::reject_all));
        }
        let handler = match self.access {
            RouteAccess::Role(role) => limited.route_layer(from_fn_with_state(
                (state.clone(), role),
                auth::require_role,
            )),
            RouteAccess::Public | RouteAccess::Key | RouteAccess::Queue | RouteAccess::Manage => {
                limited
            }
        };
        router.route(&self.path, handler)
    }
}
