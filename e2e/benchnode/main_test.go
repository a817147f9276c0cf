package main

import (
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	o := options{rounds: 1, threshold: 700, rate: 50, minute: time.Second}
	if err := o.Validate(nil); err != nil {
		t.Error(err)
	}
	err := (&options{threshold: hogMiB}).Validate([]string{"more"})
	for _, want := range []string{"more", "-rounds", "-threshold", "-rate", "-for"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestWithoutAPartThereAreAll(t *testing.T) {
	o := options{}
	if o.Complete(); !o.hog || !o.plan || !o.steady {
		t.Errorf("%+v", o)
	}
	o = options{plan: true}
	if o.Complete(); o.hog || !o.plan || o.steady {
		t.Errorf("%+v", o)
	}
}
