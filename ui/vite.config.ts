// Builds ui/dist/report.html or the page that HOMING_PAGE names: one file with script and style inside and an empty
// place for its JSON. What all pages have in their heads stands in head.html.
import { readFileSync } from 'node:fs'
import { defineConfig } from 'vitest/config'
import { viteSingleFile } from 'vite-plugin-singlefile'

const head = readFileSync(new URL('head.html', import.meta.url), 'utf8').trim()
const shared = {
  name: 'shared-head',
  transformIndexHtml: {
    order: 'pre' as const,
    handler: (page: string) => page.replace(/<!-- head: (.*) -->/, (_, title) => head.replace('TITLE', title)),
  },
}

export default defineConfig({
  plugins: [shared, viteSingleFile({ removeViteModuleLoader: true })],
  build: {
    outDir: process.env.HOMING_UI_OUT ?? 'dist',
    emptyOutDir: false,
    target: 'es2022',
    chunkSizeWarningLimit: 1000,
    rollupOptions: { input: process.env.HOMING_PAGE ?? 'report.html' },
  },
  test: { fileParallelism: false, testTimeout: 60_000, hookTimeout: 60_000 },
})
