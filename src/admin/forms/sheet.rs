//! Pages that are typed forms over something: opened, sent, and shown again with what is wrong in them.

use crate::admin::page::*;

/// A typed form that is filled in for `S`: its page, and what it does.
pub(crate) trait Sheet<S: Subject>:
    Serialize + DeserializeOwned + Default + Send + Sync
{
    fn begin(call: &Call<S>) -> PageResult<Self>;

    fn page(call: &Call<S>, form: Filled<Self>) -> impl Template;

    fn save(&self, call: &Call<S>) -> impl Future<Output = PageResult> + Send;
}

/// A page that has nothing but a form: `templates/pages/sheet.html` has the words and the fields of each.
#[derive(Template)]
#[template(path = "pages/sheet.html")]
pub(crate) struct SheetPage<F> {
    frame: Frame,
    form: Filled<F>,
    of: Fields,
    /// Whether it makes something; otherwise it changes what there is.
    is_new: bool,
    back: String,
}

pub(crate) enum Fields {
    Topic,
    NamespaceTopic,
    Namespace,
    Inspector,
    User,
    Token,
}

impl<F> SheetPage<F> {
    pub(crate) fn making<S>(
        call: &Call<S>,
        of: Fields,
        title: impl Into<String>,
        back: impl Into<String>,
        form: Filled<F>,
    ) -> Self {
        Self {
            frame: Frame::new(&call.visitor, title),
            form,
            of,
            is_new: true,
            back: back.into(),
        }
    }

    pub(crate) fn changing<S: Subject>(
        call: &Call<S>,
        of: Fields,
        title: String,
        form: Filled<F>,
    ) -> Self {
        let is_new = false;
        let page = Self::making(call, of, title, call.of.page(), form);
        Self { is_new, ..page }
    }
}

pub(crate) fn sheet<F: Sheet<S> + 'static, S: Subject>() -> MethodRouter<Arc<Site>> {
    let open = |call: Call<S>| async move {
        let form = Filled::with(F::begin(&call)?);
        PageResult::Ok(draw_sheet(&call, form))
    };
    get(open).post(send::<F, S>)
}

/// Takes a form: it is done, or shown again with what is wrong in it.
pub(crate) async fn send<F: Sheet<S>, S: Subject>(call: Call<S>) -> PageResult {
    let form = Filled::<F>::sent(&call.form);
    match form.values.save(&call).await {
        Ok(answer) => Ok(answer),
        Err(error) => Ok(draw_sheet(&call, form.with_faults(error.in_form()?))),
    }
}

pub(crate) fn draw_sheet<F: Sheet<S>, S: Subject>(call: &Call<S>, form: Filled<F>) -> Response {
    draw_with(form.status(), &F::page(call, form))
}

pub(crate) fn named<N: Display, E: Display>(
    text: &str,
    noun: &str,
    parse: impl FnOnce(&str) -> Result<N, E>,
    is_taken: impl FnOnce(&N) -> bool,
) -> Result<N, Refusal> {
    let refuse = |problem: String| Err(Refusal::of("name", problem));
    match parse(text.trim()) {
        Err(error) => refuse(sentence(&error.to_string())),
        Ok(name) if is_taken(&name) => refuse(format!("There is {noun} {name} already.")),
        Ok(name) => Ok(name),
    }
}
