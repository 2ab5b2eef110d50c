package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidings/internal/check/checktest"
)

// TestASubscriberOfNpmHearsNewItems lets pubsubhubbub, a WebSub subscriber that others have written, subscribe to a feed at the
// hub that the feed names. The node is killed meanwhile; the subscriber hears of each item.
func TestASubscriberOfNpmHearsNewItems(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	node := nodeWith(t, "pubsubhubbub")
	o := &articleOrigin{feeds: map[string][]string{"/sun": {"Sunrise: at eight"}}}
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)
	n := startNode(t, "--allow-private-origins", "--network", "websub", "--poll-interval", "2s")
	topic := n.subscribe(server.URL + "/sun")
	var hub string
	eventually(t, timeout, "a feed that names its hub", func() error {
		answer, err := http.Get(topic)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		if found := regexp.MustCompile(`<([^>]*)>; rel="hub"`).FindStringSubmatch(answer.Header.Get("Link")); found != nil {
			hub = found[1]
			return nil
		}
		return os.ErrNotExist
	})

	c := exec.Command(node, filepath.Join(readersFolder, "subscribe.mjs"), topic, hub, checktest.Port(t))
	c.Stderr = os.Stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	killWithParent(c)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 100)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var text string
			if err := json.Unmarshal(lines.Bytes(), &text); err != nil {
				text = lines.Text()
			}
			said <- text
		}
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		<-read
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	expect := func(text string) {
		t.Helper()
		for late := time.After(timeout); ; {
			select {
			case s := <-said:
				if strings.Contains(s, text) {
					return
				}
				if !strings.Contains(s, "<feed") {
					t.Fatalf("the subscriber says %s", s)
				}
			case <-late:
				t.Fatalf("the subscriber does not hear of %s", text)
			}
		}
	}
	expect("subscribed")
	o.publish("/sun", "Noon: at one")
	expect("Noon")
	n.kill()
	o.publish("/sun", "Sunset: at four")
	n.restart()
	expect("Sunset")
}
