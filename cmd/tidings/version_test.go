package main

import (
	"runtime/debug"
	"testing"
)

func TestVersionOfABuildThatIsNoPackage(t *testing.T) {
	const revision = "47055ed0123456789abcdef0123456789abcdef0"
	for _, c := range []struct {
		module                string
		settings              []debug.BuildSetting
		wantCommit, wantShown string
	}{
		{"", nil, "", "devel"},
		{"(devel)", nil, "", "devel"},
		{"v1.2.3", nil, "", "1.2.3"},
		{"(devel)", []debug.BuildSetting{{Key: "vcs.revision", Value: revision}}, "47055ed01234", "devel-47055ed01234"},
		{"v1.2.3", []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: "true"}}, "47055ed01234+", "1.2.3"},
		{"(devel)", []debug.BuildSetting{{Key: "vcs.revision", Value: "short"}}, "", "devel"},
		{"(devel)", []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}}, "", "devel"},
	} {
		commit := buildCommit(c.settings)
		if got := versionOf(c.module, commit); commit != c.wantCommit || got != c.wantShown {
			t.Errorf("module %q, %v: commit %q, version %q; want %q, %q", c.module, c.settings, commit, got, c.wantCommit, c.wantShown)
		}
	}
}
