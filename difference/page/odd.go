package page

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// wallLength is how many bytes of text what stands in a page's place has at most, if its
	// words are to count: a page about CAPTCHAs is longer.
	wallLength = 2000
	// stays is for how long what has little in common with a page has to be there to be the
	// page. What says that it is an error, or a wall, is not in the place of another page, but may be
	// what a page is about of which nothing else was ever seen.
	stays = time.Hour
)

// walls are what errors, log-ins and tests for people say in their titles or in their few
// words.
var walls = regexp.MustCompile(`(?i)captcha|are you (?:a )?human|not a robot|verify(?:ing)? (?:that )?you(?: are|'re)|checking your browser|just a moment|attention required|` +
	`unusual (?:traffic|activity)|enable (?:javascript|cookies)|javascript (?:is|must be|to be) (?:disabled|enabled|required)|access (?:is |has been )?(?:denied|blocked)|` +
	`request (?:was |has been )?(?:blocked|rejected|denied)|\b(?:40[0-9]|41[0-9]|42[0-9]|50[0-9]|52[0-9])\b.{0,20}(?:error|forbidden|found|unauthori[sz]ed|unavailable|gateway|timeout|gone|requests)|` +
	`\berror.{0,12}\b(?:4\d\d|5\d\d)\b|page (?:was )?not found|bad gateway|gateway time-?out|service (?:is )?(?:temporarily )?unavailable|temporarily (?:unavailable|down|offline)|` +
	`internal server error|too many requests|rate limit|down for maintenance|under maintenance|scheduled maintenance|something went wrong|` +
	`\bfatal error\b|uncaught (?:exception|\w*error)|traceback \(most recent call|establishing a database connection|too many connections|(?:connect to|connection to) (?:the )?(?:database|mysql)|` +
	`upstream connect error|no healthy upstream|(?:account|site|website) (?:has been |is )?suspended|index of /|welcome to nginx|default (?:web )?page|domain (?:name )?(?:is )?(?:for sale|parked|expired)|` +
	`seite (?:wurde )?nicht gefunden|zugriff (?:wurde )?(?:verweigert|gesperrt)|wartungs(?:arbeiten|modus)|interner serverfehler|(?:vorübergehend|derzeit|momentan|zurzeit) nicht (?:verfügbar|erreichbar)|kein roboter|` +
	`page (?:introuvable|non trouvée)|accès (?:refusé|interdit)|en maintenance\b|(?:temporairement|momentanément|actuellement) (?:indisponible|inaccessible)|erreur interne|pas un robot|` +
	`página no (?:encontrada|existe)|acceso denegado|en mantenimiento|temporalmente (?:no disponible|fuera de servicio)|no (?:está|se encuentra) disponible (?:temporalmente|en este momento)|error interno|no (?:soy|eres) un robot|` +
	`pagina non trovata|accesso negato|in manutenzione|temporaneamente non disponibile|errore interno|página não encontrada|acesso negado|em manutenção|temporariamente indisponível|erro interno|` +
	`pagina (?:is )?niet gevonden|toegang geweigerd|tijdelijk niet (?:beschikbaar|bereikbaar)|nie znaleziono strony|odmowa dostępu|chwilowo niedostępn|przerwa techniczna|` +
	`страница не найдена|доступ (?:запрещ[её]н|ограничен)|технические работы|временно недоступ|sayfa bulunamadı|erişim engellendi|` +
	`ページが見つかりません|メンテナンス中|アクセスが(?:拒否|集中)|页面不存在|找不到(?:该)?页面|拒绝访问|访问被拒绝|维护中|验证码`)

// faults are what programs say of their errors in data, where there had been more.
var faults = regexp.MustCompile(`(?im)^(?:\w+\.)*(?:errors?|error_?(?:code|message)|exception|fault)(?:\.\w+)*: `)

// logins are what the titles of walls for strangers say.
var logins = regexp.MustCompile(`(?i)^\W*(?:please )?(?:sign|log) ?in(?:\W*$|\s*[|·–—-]|\s+to\b)|\b(?:sign|log) ?in(?: required)?\W*$|\blogin required\b|^\W*login\b`)

// odd is a page that has turned into another one, perhaps for a moment.
type odd struct {
	lines []uint64 // of the other one, when it was first seen, as skeletons
	since time.Time
}

// judge returns why what a fetch has brought is not the page; "" if it is.
func (o *odd) judge(now, told *Core, first bool, at time.Time) string {
	if len(now.Lines) == 0 {
		return "the document is empty"
	}
	if told.ended && !now.ended && !o.lasts(now, at) {
		return "the data end in their middle"
	}
	text := now.Text()
	short := len(text) <= wallLength
	if alike := !first && common(now.Lines, told.Lines)*2 >= len(now.Lines); alike {
		*o = odd{}
		return ""
	}
	if short {
		said := walls.FindString(now.Title)
		if said == "" && !first && len(text)*2 <= len(told.Text()) { // else it may be what the page is about
			if said = walls.FindString(text); said == "" {
				said = strings.TrimSuffix(faults.FindString(text), ": ")
			}
		}
		if said != "" && !(first && o.lasts(now, at)) {
			return "an error or a wall in its place: " + said
		}
		if logins.MatchString(now.Title) && !(first && o.lasts(now, at)) {
			return "a log-in in its place: " + now.Title
		}
	}
	if first || len(text)*10 >= len(told.Text()) {
		return ""
	}
	if o.lasts(now, at) {
		return ""
	}
	return "another document in its place, much shorter"
}

// lasts says whether a document like this one has been there for long enough to be believed.
func (o *odd) lasts(now *Core, at time.Time) bool {
	lines := skeletons(now.Lines)
	if o.since.IsZero() || common(lines, o.lines)*2 < len(lines) {
		*o = odd{lines: lines, since: at}
	}
	return at.Sub(o.since) >= stays
}

// skeletons are the keys of lines without what may change by itself.
func skeletons(lines []string) []uint64 {
	of := make([]uint64, len(lines))
	for i, l := range lines {
		of[i] = lineKey(l)
	}
	return of
}

// common is how many of some lines are among others.
func common[E cmp.Ordered](of, others []E) int {
	others = slices.Clone(others)
	slices.Sort(others)
	n := 0
	for _, l := range of {
		if _, ok := slices.BinarySearch(others, l); ok {
			n++
		}
	}
	return n
}
