//! The welcome in the languages that we speak.

use crate::sign_up::Plan;

/// The text of a welcome mail: its language, subject and body.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) language: &'static str,
    pub(crate) subject: String,
    pub(crate) body: String,
}

/// The greeting for a language tag such as `pt-BR`; English for those that we do not speak.
pub(crate) fn greeting(locale: Option<&str>, name: &str, plan: Option<Plan>) -> Greeting {
    let tag = locale.unwrap_or("en");
    let language = tag.split('-').next().unwrap_or(tag).to_ascii_lowercase();
    let (language, subject, hello, account, plan_is) = match language.as_str() {
        "de" => (
            "de",
            "Willkommen, {}",
            "Hallo {},",
            "dein Konto ist angelegt.",
            "Dein Tarif: {}",
        ),
        "fr" => (
            "fr",
            "Bienvenue, {}",
            "Bonjour {},",
            "votre compte est créé.",
            "Votre formule : {}",
        ),
        "es" => (
            "es",
            "Hola, {}",
            "Hola, {}:",
            "tu cuenta está lista.",
            "Tu plan: {}",
        ),
        "pt" => (
            "pt",
            "Olá, {}",
            "Olá, {},",
            "a sua conta está pronta.",
            "O seu plano: {}",
        ),
        "ja" => (
            "ja",
            "ようこそ、{} さん",
            "{} さん、",
            "アカウントが作成されました。",
            "プラン：{}",
        ),
        "ar" => ("ar", "مرحبًا {}", "مرحبًا {}،", "تم إنشاء حسابك.", "خطتك: {}"),
        _ => (
            "en",
            "Welcome, {}",
            "Hello {},",
            "your account is ready.",
            "Your plan: {}",
        ),
    };
    let hello = hello.replace("{}", name);
    let body = match plan {
        None => format!("{hello}\n\n{account}\n"),
        Some(plan) => {
            let plan = plan_is.replace("{}", plan.as_str());
            format!("{hello}\n\n{account}\n{plan}\n")
        }
    };
    Greeting {
        language,
        subject: subject.replace("{}", name),
        body,
    }
}

#[cfg(test)]
mod tests {
    use super::greeting;
    use crate::sign_up::Plan;

    #[test]
    fn the_region_does_not_matter_and_an_unknown_language_gets_english() {
        for (locale, language) in [
            (Some("pt-BR"), "pt"),
            (Some("DE"), "de"),
            (Some("de-1996"), "de"),
            (Some("den"), "en"),
            (Some("chr"), "en"),
            (None, "en"),
        ] {
            assert_eq!(
                greeting(locale, "Ann", None).language,
                language,
                "{locale:?}"
            );
        }
    }

    #[test]
    fn the_name_is_in_subject_and_body_and_the_plan_in_the_body() {
        for locale in ["en", "de", "fr", "es", "pt", "ja", "ar"] {
            let text = greeting(Some(locale), "{} Ann", Some(Plan::Team));
            assert_eq!(text.language, locale);
            assert!(text.subject.contains("{} Ann"), "{text:?}");
            assert!(
                text.body.contains("{} Ann") && text.body.contains("team"),
                "{text:?}"
            );
        }
    }
}
