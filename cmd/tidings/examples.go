package main

// The help of a command ends with examples. Kong takes them from these methods.

func (*runCommand) Help() string {
	return examples("tidings run",
		"tidings run --bootstrap /ip4/203.0.113.7/udp/4801/quic-v1/p2p/12D3…",
		"tidings run --http 0.0.0.0:8190 --base-url http://nas.example:8190")
}

func (*openCommand) Help() string {
	return "The address works once, within ten minutes, and lets one browser in.\n\n" + examples("tidings open")
}

func (*statusCommand) Help() string { return examples("tidings status", "tidings status --json") }

func (*doctorCommand) Help() string {
	return "Each finding begins with ok, note or problem. The command ends with code 1 if there is a problem, or if the node does not answer. " +
		"Notes alone, such as a feed that cannot be read, end it with code 0.\n\n" + examples("tidings doctor", "tidings doctor --json")
}

func (*versionCommand) Help() string { return examples("tidings version", "tidings version --json") }

func (*healthcheckCommand) Help() string {
	return "The command ends with code 0 if the node answers, and with code 1 if it does not. It is meant for containers and monitoring. " +
		"Problems of a node that answers do not count: \"tidings doctor\" lists them.\n\n" +
		examples("tidings healthcheck", "tidings healthcheck --http 127.0.0.1:8191")
}

func (*completionCommand) Help() string {
	return "Packages of tidings bring these scripts with them.\n\n" +
		examples("source <(tidings completion bash)",
			"tidings completion zsh > \"${fpath[1]}/_tidings\"",
			"tidings completion fish > ~/.config/fish/completions/tidings.fish")
}

func (*subscribeCommand) Help() string {
	return examples("tidings subscribe https://go.dev/blog/feed.atom",
		"tidings subscribe page+https://go.dev/doc/devel/release",
		"tidings subscribe --tag news --tag sea https://blog.example/feed.xml")
}

func (*unsubscribeCommand) Help() string {
	return examples("tidings unsubscribe https://go.dev/blog/feed.atom")
}

func (*listCommand) Help() string {
	return "LAST NEW is how long ago the last new item was found, by any node of the network.\n\n" +
		examples("tidings list", "tidings list --failing -v", "tidings list --json")
}

func (*opmlCommand) Help() string {
	return examples("tidings opml import mine.opml", "tidings opml export for-my-reader.opml")
}

func (*importCommand) Help() string {
	return examples("tidings opml import mine.opml", "tidings opml import ~/.newsboat/urls")
}

func (*exportCommand) Help() string {
	return examples("tidings opml export for-my-reader.opml", "tidings opml export --original back-again.opml", "tidings opml export -")
}

func (*watchCommand) Help() string {
	return examples("tidings watch '(solar AND battery) NOT advert'",
		"tidings watch --format json 'title:\"sea wind\" OR site:example.org turbine*'")
}

func (*unwatchCommand) Help() string { return examples("tidings unwatch 'solar battery NOT advert'") }

func (*watchesCommand) Help() string {
	return examples("tidings watches", "tidings watches --format rss", "tidings watches --filter solar --limit 20", "tidings watches --json")
}

func (*tokenCommand) Help() string {
	return examples("tidings token create --name reading-group --searches 50 --expires 90d", "tidings token list", "tidings token revoke reading-group")
}

func (*tokenCreateCommand) Help() string {
	return examples("tidings token create", "tidings token create --name reading-group --searches 50 --expires 90d")
}

func (*tokenListCommand) Help() string {
	return examples("tidings token list", "tidings token list --json")
}

func (*tokenChangeCommand) Help() string {
	return examples("tidings token change reading-group --searches 200", "tidings token change reading-group --expires 30d")
}

func (*tokenRevokeCommand) Help() string { return examples("tidings token revoke reading-group") }

func (*notifyCommand) Help() string {
	return examples("tidings notify add --feed https://go.dev/blog/feed.atom --to https://hooks.example/news", "tidings notify list")
}

func (*notifyAddCommand) Help() string {
	return examples("tidings notify add --feed https://go.dev/blog/feed.atom --to https://hooks.example/news",
		"tidings notify add --watch 'solar battery' --health --quiet-hours 22:00-07:00 --to ntfy://ntfy.sh/my-secret-topic")
}

func (*notifyListCommand) Help() string {
	return examples("tidings notify list", "tidings notify list --json")
}

func (*notifyRemoveCommand) Help() string { return examples("tidings notify remove 3kq7vzm2ab") }

func (*notifyTestCommand) Help() string { return examples("tidings notify test 3kq7vzm2ab") }

func (*notifyDeadCommand) Help() string {
	return "The list has what the receiver refused for good, and what it did not take for three days.\n\n" +
		examples("tidings notify dead 3kq7vzm2ab", "tidings notify dead --json 3kq7vzm2ab")
}

func (*keygenCommand) Help() string {
	return examples("tidings keygen ~/keys/blog.key", "tidings keygen --rotate ~/keys/blog.key")
}

func (*publishCommand) Help() string {
	return examples("tidings publish --key blog.key --metadata https://blog.example/feed.xml",
		"tidings publish --key blog.key --document public/feed.xml https://blog.example/feed.xml",
		"tidings publish --key blog.key https://blog.example/feed.xml --title Hello --link https://blog.example/hello")
}

func (*trustCommand) Help() string { return examples("tidings trust https://blog.example/feed.xml") }

func (*candidatesCommand) Help() string {
	return examples("tidings candidates list --least 3 >> feeds.txt", "tidings candidates dismiss https://blog.example/feed.xml")
}

func (*candidatesListCommand) Help() string {
	return "The list has what --crawl-list takes: an address in each line, below a comment that describes the feed. Those come first to whose hosts " +
		"the articles of most sites link. Several crawlers divide the hosts, so each has a list of its own.\n\n" +
		examples("tidings candidates list", "tidings candidates list --least 3 >> feeds.txt", "tidings candidates list --opml > more.opml")
}

func (*candidatesDismissCommand) Help() string {
	return examples("tidings candidates dismiss https://blog.example/feed.xml")
}

func (*demoCommand) Help() string { return examples("tidings demo", "tidings demo --paper") }

// examples formats example command lines.
func examples(lines ...string) string {
	text := "Examples:\n"
	for _, e := range lines {
		text += "\n    " + e
	}
	return text
}
