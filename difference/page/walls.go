package page

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// wallLength is the maximum size of a wall that is recognised by its words alone, in bytes: a page about
// CAPTCHAs is longer. With a field for a password it may have formLength, because of the text around the form.
const (
	wallLength = 2000
	formLength = 4 * wallLength
)

// wall reports why a document is an error, a log-in page or a CAPTCHA in the place of the page, or "", and
// whether that is certain. Words that the page already had do not count, because it is about them. alike says
// that at least half of the lines are the page's.
func wall(now, visible *Core, first, alike bool) (reason string, certain bool) {
	short, halved := now.size() <= wallLength, !first && now.size()*2 <= visible.size()
	if first && !short {
		return "", false
	}
	if alike && !halved && len(linesMissing(visible.Lines, now.Lines))*2 < visible.size() {
		return "", false // most of the page is there
	}
	known := strings.ToLower(visible.Title + "\n" + visible.Text())
	fresh := linesMissing(now.Lines, visible.Lines)
	if alike && !halved { // the error must be the only news, where the page said most
		match := firstNew(wallWords, fresh, known)
		if match == "" || countWords(fresh) > countWords(match)+extraWords {
			return "", false
		}
		return inPlace + match, false
	}
	if !alike {
		match := firstNew(wallWords, now.Title, known)
		if match == "" && !first {
			match = firstNew(ambiguousWords, now.Title, known)
		}
		if match != "" {
			return inPlace + match, short
		}
		if firstNew(loginTitles, now.Title, known) != "" {
			return "a log-in page: " + now.Title, short || now.hasPassword && !visible.hasPassword
		}
	}
	asks := now.hasPassword && !visible.hasPassword && !alike
	if short && !first {
		if match := firstNew(loginWords, fresh, known); match != "" {
			return "a log-in page: " + match, halved || asks
		}
		match := cmp.Or(firstNew(wallWords, fresh, known), firstNew(ambiguousWords, fresh, known))
		if match == "" && halved {
			match = strings.TrimSuffix(firstNew(faultWords, fresh, known), ": ")
		}
		if match != "" {
			return inPlace + match, halved
		}
	}
	if asks && !first && now.size() <= formLength {
		return "a log-in page, which asks for a password", halved
	}
	return "", false
}

// extraWords is how many words besides the error itself the new text may have if the rest of the page stays.
const extraWords = 3

// inPlace begins the reason for errors and walls.
const inPlace = "an error or log-in page: "

// firstNew returns the first match in a text that is not in known, which is in lower case.
func firstNew(what *regexp.Regexp, text, known string) string {
	for _, m := range what.FindAllString(text, -1) {
		if !strings.Contains(known, strings.ToLower(m)) {
			return m
		}
	}
	return ""
}

// linesMissing returns the lines that are not among others.
func linesMissing(lines, others []string) string {
	others = slices.Sorted(slices.Values(others))
	var b strings.Builder
	for _, l := range lines {
		if _, ok := slices.BinarySearch(others, l); !ok {
			b.WriteString(l)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// wallWords matches the texts of errors, log-in pages and CAPTCHAs, in a title or in a short document.
var wallWords = regexp.MustCompile(`(?i)captcha|are you (?:a )?human|not a robot|verify(?:ing)? (?:that )?you(?: are|'re)|checking your browser|just a moment|attention required|` +
	`unusual (?:traffic|activity)|enable (?:javascript|cookies)|javascript (?:is|must be|to be) (?:disabled|enabled|required)|access (?:is |has been )?(?:denied|blocked)|` +
	`request (?:was |has been )?(?:blocked|rejected|denied)|\b(?:40[0-9]|41[0-9]|42[0-9]|50[0-9]|52[0-9])\b.{0,20}(?:error|forbidden|found|unauthori[sz]ed|unavailable|gateway|timeout|gone|requests)|` +
	`\berror.{0,12}\b(?:4\d\d|5\d\d)\b|page (?:was )?not found|bad gateway|gateway time-?out|service (?:is )?(?:temporarily )?unavailable|temporarily (?:unavailable|down|offline)|` +
	`internal server error|security check|press (?:and|&amp;|&) hold|confirm (?:that )?you(?: are|'re) (?:a )?(?:human|person)|you have been blocked|\bray id\b|unavailable (?:in|for) (?:your|most) (?:country|region|location|european)|not available in your (?:country|region|location)|` +
	`session (?:has )?(?:expired|timed out)|(?:could not|couldn't|unable to|failed to) (?:be )?load|unexpected error|need to enable javascript|javascript to run this app|trouble with our database|connection refused|\bwarning: \w+\(\)|` +
	`(?m:^\W*(?:loading|please wait|one moment(?:,? please)?|wird geladen|bitte warten|chargement(?: en cours)?|cargando|caricamento|carregando|laden|загрузка|読み込み中|加载中)\W*$)|too many requests|rate[- ]limit(?:ed| (?:was |is |has been )?(?:exceeded|reached|hit))|down for maintenance|under maintenance|something went wrong|` +
	`\bfatal error\b|uncaught (?:exception|\w*error)|traceback \(most recent call|establishing a database connection|too many connections|(?:connect to|connection to) (?:the )?(?:database|mysql)|` +
	`upstream connect error|no healthy upstream|(?:account|site|website) (?:has been |is )?suspended|welcome to nginx|default (?:web )?page|domain (?:name )?(?:is )?(?:for sale|parked|expired)|` +
	`seite (?:wurde )?nicht gefunden|zugriff (?:wurde )?(?:verweigert|gesperrt)|wartungs(?:arbeiten|modus)|interner serverfehler|(?:vorübergehend|derzeit|momentan|zurzeit) nicht (?:verfügbar|erreichbar)|kein roboter|` +
	`page (?:introuvable|non trouvée)|accès (?:refusé|interdit)|en maintenance\b|(?:temporairement|momentanément|actuellement) (?:indisponible|inaccessible)|erreur interne|pas un robot|` +
	`página no (?:encontrada|existe)|acceso denegado|en mantenimiento|temporalmente (?:no disponible|fuera de servicio)|no (?:está|se encuentra) disponible (?:temporalmente|en este momento)|error interno|no (?:soy|eres) un robot|` +
	`pagina non trovata|accesso negato|in manutenzione|temporaneamente non disponibile|errore interno|página não encontrada|acesso negado|em manutenção|temporariamente indisponível|erro interno|` +
	`pagina (?:is )?niet gevonden|toegang geweigerd|tijdelijk niet (?:beschikbaar|bereikbaar)|nie znaleziono strony|odmowa dostępu|chwilowo niedostępn|przerwa techniczna|` +
	`страница не найдена|доступ (?:запрещ[её]н|ограничен)|технические работы|временно недоступ|sayfa bulunamadı|erişim engellendi|` +
	`ページが見つかりません|メンテナンス中|アクセスが(?:拒否|集中)|页面不存在|找不到(?:该)?页面|拒绝访问|访问被拒绝|维护中|验证码`)

// faultWords matches errors in data.
var faultWords = regexp.MustCompile(`(?im)^(?:\w+\.)*(?:errors?|error_?(?:code|message)|exception|fault)(?:\.\w+)*: `)

// loginTitles matches the titles of log-in pages.
var loginTitles = regexp.MustCompile(`(?i)^\W*(?:please )?(?:sign|log) ?in(?:\W*$|\s*[|·–—-]|\s+to\b)|\b(?:sign|log) ?in(?: required)?\W*$|\blogin required\b|^\W*login\b|^\W*(?:anmelden|anmeldung|einloggen|connexion|se connecter|iniciar sesión|accedi|inloggen|logowanie|zaloguj|entrar|войти|вход|ログイン|登录|登入)\W*(?:$|[|·–—-])`)

// ambiguousWords matches texts of errors that may also be the subject of a page.
var ambiguousWords = regexp.MustCompile(`(?i)index of /|scheduled maintenance|rate limit`)

// loginWords matches texts that ask a visitor to log in.
var loginWords = regexp.MustCompile(`(?i)(?:must|have to|need to) (?:be (?:logged|signed) in|(?:log|sign) in\b)|(?:log|sign) ?in (?:or (?:register|sign up|subscribe|create an account|join) )?to (?:read|continue|view|see|access|proceed)|` +
	`\b(?:subscribe|register) to (?:read|continue)|for (?:our )?subscribers(?: only)?\b|already a (?:subscriber|member)|need an account to|(?:sign|log) ?in with (?:google|facebook|apple)|accept all.{0,60}reject all|reject all.{0,60}accept all|` +
	`forg[eo]t(?:ten)? (?:your )?password|(?:melden sie sich|bitte) an(?:melden)?, um|(?:bitte|müssen sie sich) (?:anmelden|einloggen)|passwort vergessen|` +
	`connectez-vous pour|mot de passe oublié|inici(?:a|ar|e) sesión para|(?:olvidó|olvidaste|ha olvidado) (?:su|tu|la) contraseña|accedi per|password dimenticata|log in om te|wachtwoord vergeten|zaloguj się, aby|войдите, чтобы|забыли пароль`)
