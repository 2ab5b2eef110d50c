package main

import (
	"strings"
	"testing"
)

func TestWrongUsageOfNotify(t *testing.T) {
	for _, c := range []struct{ args, why string }{
		{"add --to https://hooks.example/", "--feed URL"},
		{"add --health", "--to"},
		{"add --health --to", "needs a value"},
		{"add --health --to https://hooks.example/ --pause 1.5s", "whole seconds"},
		{"add --health --to https://hooks.example/ --pause -1s", "--pause"},
		{"add --health --to https://hooks.example/ --pause soon", "--pause"},
		{"remove", "id"}, {"test", "id"}, {"dead", "id"}, {"", "add"}, {"lsit", "list"},
	} {
		code, _, stderr := runCommandAt(t, "http://127.0.0.1:1", append([]string{"notify"}, strings.Fields(c.args)...)...)
		if code != exitUsage || !strings.Contains(stderr, c.why) {
			t.Errorf("notify %s: %d %s, want %q", c.args, code, stderr, c.why)
		}
	}
}

func TestListOfTargets(t *testing.T) {
	const answer = `{"targets":[
		{"id":"aaaa","to":"https://hooks.example/…","kind":"webhook","feeds":["https://ferry.example/news"],"queries":[],"health":false,"quiet_hours":"22:00-07:00","digest":"","pause_s":0,"added":null,"ended":null,"sent":12,"last_sent":null,"failing_since":"2026-11-01T00:00:00Z","error":"the receiver answers 500 \u001b[31m","next":"2026-11-01T01:00:00Z","dead":2,"missed":true},
		{"id":"bbbb","to":"smtp://mail.example to anna@ferry.example","kind":"mail","feeds":[],"queries":["solar battery"],"health":true,"quiet_hours":"","digest":"weekly","pause_s":0,"added":null,"ended":"2026-11-01T00:00:00Z","sent":0,"last_sent":null,"failing_since":null,"error":"","next":null,"dead":0,"missed":false},
		{"id":"cccc","to":"ntfy://ntfy.sh/…","kind":"ntfy","feeds":[],"queries":[],"health":true,"quiet_hours":"","digest":"","pause_s":0,"added":null,"ended":null,"sent":1,"last_sent":null,"failing_since":null,"error":"","next":null,"dead":0,"missed":false}]}`
	code, stdout, stderr := runCommandAt(t, newFakeNode(t, 200, answer), "notify", "list")
	if code != exitDone {
		t.Fatalf("%d %s", code, stderr)
	}
	for _, want := range []string{
		"aaaa  https://hooks.example/…", "feed: https://ferry.example/news", "quiet hours: 22:00-07:00", "failing, next attempt now, 2 dead letters, has missed events",
		"the receiver answers 500 [31m, for", "→ tidings notify dead aaaa", "search: solar battery", "weekly digest", "ended by the receiver", "health of all feeds", "ok",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	if code, stdout, _ := runCommandAt(t, newFakeNode(t, 200, answer), "notify", "list", "--json"); code != exitDone || !strings.Contains(stdout, `"pause_s": 0`) {
		t.Errorf("%d %s", code, stdout)
	}
	dead := `{"dead":[{"time":"2026-11-01T00:00:00Z","error":"the receiver answers 400","event":{"url":"https://ferry.example/news","item":{"title":"Pier 1"}}},{"time":"2026-11-01T00:00:00Z","error":"no","event":{"url":"https://ferry.example/news","health":{"kind":"gone"}}}]}`
	if code, stdout, stderr := runCommandAt(t, newFakeNode(t, 200, dead), "notify", "dead", "aaaa"); code != exitDone || !strings.Contains(stdout, "Pier 1") || !strings.Contains(stdout, "https://ferry.example/news gone") {
		t.Errorf("%d %s %s", code, stdout, stderr)
	}
	if code, _, stderr := runCommandAt(t, newFakeNode(t, 404, `{"error":"there is no target \"x\": tidings notify list shows yours"}`), "notify", "remove", "x"); code != exitFailed || !strings.Contains(stderr, "no target") {
		t.Errorf("%d %s", code, stderr)
	}
}
