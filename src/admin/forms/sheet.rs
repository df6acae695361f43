//! Pages that are typed forms over something: opened, sent, and shown again with what is wrong in them.

use crate::admin::page::*;

/// Which form it is, its title, behind which the name of its subject stands, and the list that it leads back to where
/// there is no subject yet.
pub(crate) type Head = (Fields, &'static str, &'static str);

pub(crate) enum Fields {
    Topic,
    NamespaceTopic,
    Events,
    SasToken,
    Namespace,
    Queue,
    ServiceBusTopic,
    Rule,
    Message,
    Signing,
    Inspector,
    AlertRule,
    AlertChannel,
    User,
    Token,
    AccessRule,
    Backup,
}

/// A typed form that is filled in for `S`, and what it does.
pub(crate) trait Sheet<S: Subject>:
    Serialize + DeserializeOwned + Default + Send + Sync
{
    const HEAD: Head;

    fn begin(_: &Call<S>) -> PageResult<Self> {
        Ok(Self::default())
    }

    fn title(call: &Call<S>) -> String {
        match Self::HEAD {
            (_, title, "") => format!("{title} {}", call.of.name()),
            (_, title, _) => title.to_owned(),
        }
    }

    /// Returns a further remark about the subject for its page.
    fn remark(_: &Call<S>) -> String {
        String::new()
    }

    fn save(&self, call: &Call<S>) -> impl Future<Output = PageResult> + Send;
}

/// A page that has nothing but a form: `templates/pages/sheet.html` has the words and the fields of each. One type for
/// all forms, since what draws it takes tens of kilobytes of the program.
#[derive(Template)]
#[template(path = "pages/sheet.html")]
struct SheetPage {
    frame: Frame,
    form: Filled<()>,
    of: Fields,
    /// Is true if the form makes something new, and false if it changes what there is.
    is_new: bool,
    back: String,
    remark: String,
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
    let (of, _, list) = F::HEAD;
    let back = match list {
        "" => call.of.page(),
        list => list.to_owned(),
    };
    let sheet = SheetPage {
        frame: Frame::new(&call.visitor, F::title(call)),
        is_new: paths::last_part(&call.visitor.path).starts_with("new-"),
        remark: F::remark(call),
        form: form.drawn(),
        of,
        back,
    };
    draw_with(sheet.form.status(), &sheet)
}

/// Returns the name and the definition that a form for something new has, or everything that is wrong with both.
pub(crate) fn named<N: Display, E: Display, D>(
    form: &Form,
    noun: &str,
    parse: impl FnOnce(&str) -> Result<N, E>,
    is_taken: impl FnOnce(&N) -> bool,
    definition: Result<D, Vec<FormError>>,
) -> Result<(N, D), Vec<FormError>> {
    let problem = match parse(form.text("name")) {
        // The name itself stands in the field.
        Err(error) => sentence(error.to_string().rsplit(": ").next().unwrap_or_default()),
        Ok(name) if is_taken(&name) => format!("There is {noun} {name} already."),
        Ok(name) => return definition.map(|definition| (name, definition)),
    };
    let others = definition.err().unwrap_or_default();
    Err([vec![FormError::of("name", problem)], others].concat())
}
