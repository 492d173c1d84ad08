(function () {
  var main = document.querySelector('main'), lost = document.getElementById('lost'), seen = new Date();
  setInterval(function () {
    if (document.hidden) return;
    fetch(location.href, { cache: 'no-store', signal: AbortSignal.timeout(4000) }).then(function (answer) {
      if (!answer.ok) throw new Error(answer.status);
      return answer.text();
    }).then(function (text) {
      seen = new Date();
      lost.hidden = true;
      // What somebody is marking to copy stays as it is.
      if (!getSelection().isCollapsed) return;
      var page = new DOMParser().parseFromString(text, 'text/html'), fresh = page.querySelector('main');
      main.replaceWith(fresh);
      main = fresh;
      document.title = page.title;
      document.querySelector('link[rel=icon]').href = page.querySelector('link[rel=icon]').href;
    }).catch(function () {
      lost.textContent = 'No answer since ' + seen.toLocaleTimeString() + ': what is shown is from then. Is the process running?';
      lost.hidden = false;
    });
  }, 5000);
})();
