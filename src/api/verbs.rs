//! The handlers of one path, by method: axum's own, which does not tell what methods it has.

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter};

use crate::api::ApiState;

/// What a path answers, and to which methods.
#[derive(Default)]
pub(super) struct Verbs {
    methods: Vec<Method>,
    router: MethodRouter<ApiState>,
}

pub(super) fn get<T: 'static>(handler: impl Handler<T, ApiState>) -> Verbs {
    Verbs::default().and(Method::GET, handler)
}

pub(super) fn post<T: 'static>(handler: impl Handler<T, ApiState>) -> Verbs {
    Verbs::default().post(handler)
}

pub(super) fn delete<T: 'static>(handler: impl Handler<T, ApiState>) -> Verbs {
    Verbs::default().delete(handler)
}

impl Verbs {
    pub(super) fn put<T: 'static>(self, handler: impl Handler<T, ApiState>) -> Self {
        self.and(Method::PUT, handler)
    }

    pub(super) fn patch<T: 'static>(self, handler: impl Handler<T, ApiState>) -> Self {
        self.and(Method::PATCH, handler)
    }

    pub(super) fn post<T: 'static>(self, handler: impl Handler<T, ApiState>) -> Self {
        self.and(Method::POST, handler)
    }

    pub(super) fn delete<T: 'static>(self, handler: impl Handler<T, ApiState>) -> Self {
        self.and(Method::DELETE, handler)
    }

    pub(super) fn options<T: 'static>(self, handler: impl Handler<T, ApiState>) -> Self {
        self.and(Method::OPTIONS, handler)
    }

    /// What becomes of all other methods, unless it is what becomes of them everywhere.
    pub(super) fn otherwise<T: 'static>(self, handler: impl Handler<T, ApiState>) -> Self {
        Self {
            router: self.router.fallback(handler),
            ..self
        }
    }

    fn and<T: 'static>(mut self, method: Method, handler: impl Handler<T, ApiState>) -> Self {
        let filter = MethodFilter::try_from(method.clone()).expect("a method of HTTP's own");
        self.router = self.router.on(filter, handler);
        self.methods.push(method);
        self
    }

    /// In the order of the table.
    pub(super) fn methods(&self) -> &[Method] {
        &self.methods
    }

    pub(super) fn into_router(self) -> MethodRouter<ApiState> {
        self.router
    }
}
