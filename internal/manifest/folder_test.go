package manifest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree makes files and links in a new folder, which becomes the working directory.
func tree(t *testing.T, files []string, links map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	var got []string
	(&Folder{Endings: []string{".yaml", ".yml"}, Found: func(path string, err error) {
		if err != nil {
			path += "!"
		}
		got = append(got, path)
	}}).Walk(dir)
	return got
}

func TestWalk(t *testing.T) {
	for name, test := range map[string]struct {
		files []string
		links map[string]string
		dir   string
		want  []string
	}{
		"a folder for each team":   {[]string{"p/base.yaml", "p/a/x.yaml", "p/b/c/y.yml", "p/b/README.md"}, nil, "p", []string{"p/a/x.yaml", "p/b/c/y.yml", "p/base.yaml"}},
		"hidden folders":           {[]string{"p/.team/a.yaml", "p/.chainsaw-test/b/c.yaml", "p/.git/d.yaml", "p/.github/workflows/e.yml"}, nil, "p", []string{"p/.chainsaw-test/b/c.yaml", "p/.team/a.yaml"}},
		"hidden files":             {[]string{"p/.a.yaml", "p/b.yaml"}, nil, "p", []string{"p/b.yaml"}},
		"a mounted ConfigMap":      {[]string{"p/..1/a.yaml"}, map[string]string{"p/..data": "..1", "p/a.yaml": "..data/a.yaml"}, "p", []string{"p/a.yaml"}},
		"one that is hidden":       {[]string{".p/a.yaml"}, nil, ".p", []string{".p/a.yaml"}},
		"one that is reached back": {[]string{"p/a.yaml"}, map[string]string{"p/up": "../p"}, ".", []string{"p/a.yaml"}},
		"from within":              {[]string{"a.yaml", "p/b.yaml"}, map[string]string{"p/up": "../"}, ".", []string{"a.yaml", "p/b.yaml"}},
		"a link to nothing":        {[]string{"p/b.yaml"}, map[string]string{"p/a.yaml": "gone"}, "p", []string{"p/a.yaml!", "p/b.yaml"}},
		"nothing":                  {[]string{"p/b.txt"}, nil, "p", nil},
	} {
		t.Run(name, func(t *testing.T) {
			tree(t, test.files, test.links)
			if diff := cmp.Diff(test.want, files(t, test.dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
