import { defineConfig } from "vite";
import { svelte } from "@sveltejs/vite-plugin-svelte";

// One script and one style sheet under fixed names, so that what is checked in is the same wherever it is built.
export default defineConfig({
  plugins: [svelte()],
  base: "./",
  build: {
    outDir: "../assets",
    emptyOutDir: true,
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: "explorer.js",
        assetFileNames: "explorer[extname]",
        codeSplitting: false,
      },
    },
  },
});
