import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { defineConfig, type Plugin } from 'vite';

// What the built files depend on. tests/web/check-dist.sh computes the same hash without node.
const root = __dirname;
const inputs = ['index.html', 'package.json', 'package-lock.json', 'tsconfig.json', 'vite.config.ts'];

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesBelow(path) : [path];
  });
}

// Lines as sha256sum prints them, in the order of the bytes of their names, hashed once more.
function hashOfSources(): string {
  const names = [...inputs, ...filesBelow(join(root, 'src')).map((path) => relative(root, path))].sort((a, b) => (a < b ? -1 : 1));
  const lines = names.map(
    (name) =>
      `${createHash('sha256')
        .update(readFileSync(join(root, name)))
        .digest('hex')}  ${name}\n`,
  );
  return createHash('sha256').update(lines.join('')).digest('hex');
}

const recordSources = (): Plugin => ({
  name: 'record-sources',
  generateBundle() {
    this.emitFile({ type: 'asset', fileName: 'sources.sha256', source: `${hashOfSources()}\n` });
    // The only foreign code in the built files asks for its licence to go along.
    const licence = readFileSync(join(root, 'node_modules/preact/LICENSE'), 'utf8');
    this.emitFile({
      type: 'asset',
      fileName: 'third-party.txt',
      source: `This page contains Preact (https://preactjs.com).\n\n${licence}`,
    });
  },
});

const server = process.env['TRITIUM_SERVER'] ?? 'http://127.0.0.1:8188';

export default defineConfig({
  // The content security policy allows files of this origin only: nothing is put into the document or into the style sheet.
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
    emptyOutDir: true,
  },
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  plugins: [recordSources()],
  // The server wants requests of pages under the name by which it was reached.
  server: { proxy: { '/v1': { target: server, changeOrigin: false } } },
});
