// Builds ui/dist/report.html or the page that HOMING_PAGE names: one file with script and style inside and an empty
// place
// for its JSON.
import { defineConfig } from 'vitest/config'
import { viteSingleFile } from 'vite-plugin-singlefile'

export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  build: {
    outDir: process.env.HOMING_UI_OUT ?? 'dist',
    emptyOutDir: false,
    target: 'es2022',
    chunkSizeWarningLimit: 1000,
    rollupOptions: { input: process.env.HOMING_PAGE ?? 'report.html' },
  },
  test: { fileParallelism: false, testTimeout: 60_000, hookTimeout: 60_000 },
})
