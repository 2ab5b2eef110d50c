package owner_test

import (
	"testing"

	"tidings/internal/longtest"
)

func TestMain(m *testing.M) { longtest.Main(m) }
