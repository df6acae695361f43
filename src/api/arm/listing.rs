//! Lists in the style of Azure Resource Manager: filtered by name, and in pages on request.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded;

use crate::api::ApiState;
use crate::api::arm::ArmPath;
use crate::api::arm::odata::NameFilter;
use crate::api::base_url::BaseUrl;
use crate::api::error::ApiError;
use crate::api::parameters::RequestParameters;
use crate::wire::resource::bodies::ResourceList;

/// Maximum number of resources on one page, as Azure documents it.
const TOP_MAX: usize = 100;

const SKIP_TOKEN: &str = "$skiptoken";

/// The query parameters of a list.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListParameters {
    /// Which names, in OData: `contains(name, 'orders') and name ne 'orders-1'`.
    #[serde(rename = "$filter")]
    filter: Option<String>,
    /// Resources on one page, 1 to 100. Left out, all are on one.
    #[serde(rename = "$top")]
    #[schemars(range(min = 1, max = TOP_MAX))]
    top: Option<usize>,
    /// From the `nextLink` of the page before.
    #[serde(rename = "$skiptoken")]
    skip_token: Option<String>,
}

/// A list that a client asks for.
pub(in crate::api) struct ListRequest {
    filter: Option<NameFilter>,
    top: Option<usize>,
    skip_token: Option<String>,
    /// The URL of the appliance.
    pub(crate) base: BaseUrl,
    /// The path of the list.
    path: String,
    /// The query parameters without `$skiptoken`.
    query: Vec<(String, String)>,
    /// Is true where the path has the form of Azure Resource Manager.
    is_arm: bool,
}

impl FromRequestParts<ApiState> for ListRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let RequestParameters(asked) =
            RequestParameters::<ListParameters>::from_request_parts(parts, state).await?;
        if asked.top.is_some_and(|top| !(1..=TOP_MAX).contains(&top)) {
            let problem = format!("The parameter $top must be from 1 to {TOP_MAX}.");
            return Err(ApiError::of_field("$top", problem));
        }
        let Ok(base) = BaseUrl::from_request_parts(parts, state).await;
        let arm = parts.extensions.get::<ArmPath>();
        let uri = arm.map_or(&parts.uri, |arm| &arm.asked);
        let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
            .into_owned()
            .filter(|(name, _)| name != SKIP_TOKEN);
        Ok(Self {
            filter: asked.filter.as_deref().map(NameFilter::parse).transpose()?,
            top: asked.top,
            skip_token: asked.skip_token,
            base,
            path: uri.path().to_owned(),
            query: query.collect(),
            is_arm: arm.is_some(),
        })
    }
}

impl ListRequest {
    /// Reports whether the path has the form of Azure Resource Manager, as Azure's clients send it.
    pub(crate) fn is_arm(&self) -> bool {
        self.is_arm
    }

    /// Returns the requested page of `all`, ordered by key. A key is the name of a resource, or a path that ends with a
    /// slash and the name.
    pub(crate) fn page<R>(
        &self,
        all: impl Iterator<Item = R>,
        key: impl Fn(&R) -> String,
        show: impl Fn(&R) -> Value,
    ) -> ResourceList<Value> {
        let is_wanted = |key: &str| {
            let name = key.rsplit('/').next().unwrap_or(key);
            self.filter.as_ref().is_none_or(|filter| filter.takes(name))
                && self.skip_token.as_deref().is_none_or(|last| key > last)
        };
        let keyed = all.map(|each| (key(&each).to_lowercase(), each));
        let mut wanted: Vec<_> = keyed.filter(|(key, _)| is_wanted(key)).collect();
        wanted.sort_by(|(one, _), (other, _)| one.cmp(other));
        let top = self.top.unwrap_or(wanted.len());
        let last = (wanted.len() > top).then(|| wanted[top - 1].0.clone());
        wanted.truncate(top);
        let shown = wanted.iter().map(|(_, each)| show(each));
        ResourceList::page(shown, last.map(|last| self.link_behind(&last)))
    }

    fn link_behind(&self, last: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query
            .extend_pairs(&self.query)
            .append_pair(SKIP_TOKEN, last);
        format!("{}{}?{}", self.base, self.path, query.finish())
    }
}
