package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// The error for a mistyped command line says in one line what is wrong and how to write it.
func TestMistypedCommandLines(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"subscrbe x", `unknown command "subscrbe"; did you mean "subscribe"? See tidings --help`},
		{"opml imprt x", `unknown command "imprt"; did you mean "import"? See tidings opml --help`},
		{"help frobnicate", `unknown command "frobnicate"; see tidings --help`},
		{"opml", `give one of the commands "import", "export"; see tidings opml --help`},
		{"list extra", `unexpected argument "extra"; see tidings list --help`},
		{"run --htt x", `unknown flag --htt; did you mean "--http"? See tidings run --help`},
		{"list -v -x", `unknown flag -x; see tidings list --help`},
		{"watch solar -advert", `unknown flag -advert; if it belongs to the query, put the query behind --, as in tidings watch -- '-advert'; see tidings watch --help`},
		{"unwatch -advert", `unknown flag -advert; if it belongs to the query, put the query behind --, as in tidings unwatch -- '-advert'; see tidings unwatch --help`},
		{"watch -hydro", `unknown flag -hydro; if it belongs to a query, put the query behind --; see tidings --help`},
		{"watch", `which query? tidings watch QUERY; see tidings watch --help`},
		{"list --tag", `--tag needs a value; see tidings list --help`},
		{"list --tag --json", `--tag needs a value; if "--json" is the value, write --tag="--json"; see tidings list --help`},
		{"demo --every 5", `--every: 5 has no unit; write 5m or 5s; see tidings demo --help`},
		{"run --poll-interval 0.5", `--poll-interval: 0.5 has no unit; write 0.5m or 0.5s; see tidings run --help`},
		{"run --poll-interval soon", `--poll-interval: "soon" is not a duration; write one such as 30s, 5m or 1h30m; see tidings run --help`},
		{"run --quiet=perhaps", `--quiet: "perhaps" is neither true nor false; write true or false; see tidings run --help`},
		{"run --log-level loud", `--log-level "loud": give debug, info, warn, error; see tidings run --help`},
		{"run --poll-interval 0s --http none", `poll interval 0s: give a whole number of seconds from 1s to 24h; see tidings run --help`},
		{"run --config none.toml", `settings: cannot read none.toml: no such file or directory; check the name of the file; see tidings run --help`},
		{"run --owners five", `--owners: "five" is not a whole number; see tidings run --help`},
		{"network create --authority a --ids key n", `unknown flag --ids; see tidings network create --help`},
		{"subscribe --private --quiet-follow u", `subscribe: --quiet-follow: no other node knows a private feed anyway; leave the flag out; see tidings subscribe --help`},
		{"subscribe --least witnessed https://a:b@h.example/", `subscribe: --least: items of a private feed are not signed, and no other node sees them; leave the flag out; see tidings subscribe --help`},
		{"run --load much", `--load: "much" is not a number; see tidings run --help`},
	} {
		var out, said bytes.Buffer
		code := run(context.Background(), strings.Fields(c.args), strings.NewReader(""), &out, &said)
		if got := strings.TrimSpace(said.String()); code != exitUsage || out.Len() > 0 || got != "tidings: "+c.says {
			t.Errorf("%s: %d, %s", c.args, code, got)
		}
	}
}
