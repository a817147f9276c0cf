package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/licensedetect"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/licensedetect/local"
	"github.com/rs/zerolog"
)

// once asks for the licence of each version of a module once: most programs have most modules in common, and reading a licence takes its time.
type once struct {
	detector licensedetect.Detector
	known    map[string][]cdx.License
}

func newOnce() *once { return &once{local.NewDetector(zerolog.Nop()), map[string][]cdx.License{}} }

// Detect is of licensedetect.Detector.
func (o *once) Detect(path, version, dir string) ([]cdx.License, error) {
	key := path + "@" + version
	if _, found := o.known[key]; !found {
		licences, err := o.detector.Detect(path, version, dir)
		if err != nil {
			return nil, err
		}
		o.known[key] = licences
	}
	return o.known[key], nil
}

// bill is the SBOM of a program, from what Go has written into it: the modules that are really in it on its platform. The generator reads their licences in
// the cache, where the build has put them. It is kept from the network, where it would look for the product's own module as well, at a version that is
// public or not yet.
func (r release) bill(program string, licences licensedetect.Detector) ([]byte, error) {
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("SBOM of %s: %w", filepath.Base(program), err) }
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fail(err)
	}
	var said bytes.Buffer
	generator, err := bin.NewGenerator(program, bin.WithLogger(zerolog.New(&said)), bin.WithIncludeStdlib(true), bin.WithVersionOverride(r.Version), bin.WithLicenseDetector(licences))
	if err != nil {
		return fail(err)
	}
	var bom *cdx.BOM
	if err := offline(func() error {
		bom, err = generator.Generate()
		return err
	}); err != nil {
		return fail(err)
	}
	if err := unread(&said, r.own(info)); err != nil {
		return fail(err)
	}
	bom.Metadata.Timestamp = r.Date.Format(time.RFC3339)
	bom.Metadata.Component.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	bom.Metadata.Component.Evidence = nil // where the cache has that version
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("SBOM of %s: %w", filepath.Base(program), err)
	}
	return text.Bytes(), nil
}

// offline does something while Go's commands reach nothing but the cache. They have the environment of this process: the generator gives them none of their own.
func offline(do func() error) (err error) {
	for name, value := range map[string]string{"GOPROXY": "off", "GONOPROXY": "none", "GOSUMDB": "off"} {
		before, set := os.LookupEnv(name)
		if err := os.Setenv(name, value); err != nil {
			return err
		}
		defer func() {
			if set {
				err = errors.Join(err, os.Setenv(name, before))
			} else {
				err = errors.Join(err, os.Unsetenv(name))
			}
		}()
	}
	return do()
}

// own are the modules of a program that are folders of this repository, as the generator names them.
func (r release) own(info *buildinfo.BuildInfo) []string {
	names := []string{info.Main.Path + "@" + r.Version}
	for _, m := range info.Deps {
		if m.Replace != nil && (strings.HasPrefix(m.Replace.Path, ".") || filepath.IsAbs(m.Replace.Path)) {
			names = append(names, m.Replace.Path+"@"+m.Replace.Version)
		}
	}
	return names
}

// unread says of which modules the generator could not read what is in them, or read something else than was built: it warns in place of failing. Own ones
// and Go's library are in no cache, and a module may be without a licence that is known.
func unread(said io.Reader, own []string) error {
	var problems []error
	for lines := json.NewDecoder(said); ; {
		var line struct{ Level, Message, Module, Reason string }
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return errors.Join(problems...)
		} else if err != nil {
			return err
		}
		if line.Level == "warn" && line.Message != "no licenses detected" && !slices.Contains(own, line.Module) && !strings.HasPrefix(line.Module, "std@") {
			problems = append(problems, fmt.Errorf("%s: %s: %s", line.Message, line.Module, line.Reason))
		}
	}
}
