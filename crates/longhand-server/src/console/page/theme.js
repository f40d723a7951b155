// Runs before the first paint: whoever chose a theme should not see the other one flash.
(() => {
  try {
    const theme = localStorage.getItem("longhand-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be switched off; then the theme is the system's.
  }
})();
